// Ten operations: a check that both inputs have as many rows, two transposes that cancel, and a little arithmetic.
func.func @ten(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
  %m = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
  %p = stablehlo.compare EQ, %n, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%p, %n, %m) {error_message = "rows {0} and {1} differ",
    has_side_effect = true} : (tensor<i1>, tensor<i32>, tensor<i32>) -> ()
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %u = stablehlo.transpose %t, dims = [1, 0] : (tensor<4x?xf32>) -> tensor<?x4xf32>
  %a = stablehlo.add %u, %y : tensor<?x4xf32>
  %e = stablehlo.exponential %a : tensor<?x4xf32>
  %0 = stablehlo.multiply %e, %a : tensor<?x4xf32>
  %1 = stablehlo.tanh %0 : tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}
