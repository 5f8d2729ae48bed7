"""Shape functions of common ops as plain Python, to use in ops of your own and to read as examples.

    from egshape.shapelib.linear import matmul

    @egshape.custom_op("my_matmul", operands=("x", "y"))
    class MyMatmul:
        shape = matmul
        def reference(x, y): ...

One file a family. Each function is declared with cases and an oracle that knows nothing of it (``library.declared``);
``egshape shapelib check`` holds it against that at small sizes."""
