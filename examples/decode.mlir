// Decoding with a cache that grows: each round attends to all rows before it, and appends what it gives. The loop has as
// many rounds as %room has places; its types say nothing of that, `egshape shapes` says that it gives cache.0 + room.0.
func.func @main(%cache: tensor<?x4xf32> loc("cache"), %last: tensor<1x4xf32> loc("last"), %room: tensor<?xf32> loc("room"))
    -> tensor<?x4xf32> {
  %t = stablehlo.get_dimension_size %room, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %rows = %cache, %x = %last) : tensor<i32>, tensor<?x4xf32>, tensor<1x4xf32>
    cond {
      %p = stablehlo.compare LT, %i, %t : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %all = stablehlo.concatenate %rows, %x, dim = 0 : (tensor<?x4xf32>, tensor<1x4xf32>) -> tensor<?x4xf32>
      %scores = stablehlo.dot_general %x, %all, contracting_dims = [1] x [1]
        : (tensor<1x4xf32>, tensor<?x4xf32>) -> tensor<1x?xf32>
      %shares = stablehlo.logistic %scores : tensor<1x?xf32>
      %mixed = stablehlo.dot_general %shares, %all, contracting_dims = [1] x [0]
        : (tensor<1x?xf32>, tensor<?x4xf32>) -> tensor<1x4xf32>
      %y = stablehlo.tanh %mixed : tensor<1x4xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %all, %y : tensor<i32>, tensor<?x4xf32>, tensor<1x4xf32>
    }
  return %r#1 : tensor<?x4xf32>
}
