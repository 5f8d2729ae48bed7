// A size comes as an argument, and is tied to the value that has it.
func.func @main(%x: tensor<?x4xf32>, %n: tensor<i64>) -> tensor<?x4xf32> {
  %e = tensor.extract %n[] : tensor<i64>
  %i = arith.index_cast %e : i64 to index
  %t = flow.tensor.tie_shape %x : tensor<?x4xf32>{%i}
  %r = stablehlo.add %t, %t : tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}
