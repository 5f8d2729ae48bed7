// Both arms of an `if` have as many rows as %x, and so has what stands behind it.
func.func @main(%c: tensor<i1>, %x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = "stablehlo.if"(%c) ({
    %a = stablehlo.tanh %x : tensor<?x4xf32>
    stablehlo.return %a : tensor<?x4xf32>
  }, {
    %b = stablehlo.negate %x : tensor<?x4xf32>
    stablehlo.return %b : tensor<?x4xf32>
  }) : (tensor<i1>) -> tensor<?x4xf32>
  %1 = stablehlo.abs %0 : tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}
