// Two ways to one end, as blocks that branch: read as an if.
func.func @main(%p: tensor<i1>, %x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %c = tensor.extract %p[] : tensor<i1>
  cf.cond_br %c, ^one, ^two
^one:
  %a = stablehlo.tanh %x : tensor<?x4xf32>
  cf.br ^end(%a : tensor<?x4xf32>)
^two:
  %b = stablehlo.negate %x : tensor<?x4xf32>
  cf.br ^end(%b : tensor<?x4xf32>)
^end(%z: tensor<?x4xf32>):
  return %z : tensor<?x4xf32>
}
