// Nothing says the rank of %x and %y but their uses.
func.func @main(%x: tensor<*xf32>, %y: tensor<*xf32>) -> tensor<*xf32> {
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<*xf32>) -> tensor<*xf32>
  %0 = stablehlo.add %t, %y : tensor<*xf32>
  return %0 : tensor<*xf32>
}
