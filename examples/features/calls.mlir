// A call that does not fit: the error speaks of the call.
func.func @main(%x: tensor<?x3xf32>, %y: tensor<4x3xf32>) -> tensor<?x?xf32> {
  %0 = func.call @matmul(%x, %y) : (tensor<?x3xf32>, tensor<4x3xf32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
func.func private @matmul(%a: tensor<?x3xf32>, %b: tensor<4x3xf32>) -> tensor<?x?xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<?x3xf32>, tensor<4x3xf32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
