"""Rules of ops that move or join elements: both sides as examples write them, and as rules do."""

from __future__ import annotations

MOVES = [
    (
        "transpose(transpose(x: f32[a, b], [1, 0]), [1, 0])",
        "x",
        "(transpose (transpose x p) p)",
        "x",
    ),
    (
        "transpose(transpose(x: f32[a, b, c], [1, 2, 0]), [2, 0, 1])",
        "x",
        "(transpose (transpose x p) q)",
        "x",
    ),
    (
        "reverse(reverse(x: f32[a, b], [0]), [0])",
        "x",
        "(reverse (reverse x d) d)",
        "x",
    ),
    (
        "reverse(reverse(x: f32[a, b], [0]), [1])",
        "reverse(x, [1, 0])",
        "(reverse (reverse x d) f)",
        "(reverse x (vec-append f d))",
    ),
    (
        "reverse(transpose(x: f32[a, b], [1, 0]), [0])",
        "transpose(reverse(x, [0]), [1, 0])",
        "(reverse (transpose x p) d)",
        "(transpose (reverse x d) p)",
    ),
    (
        "abs(reverse(x: f32[a], [0]))",
        "reverse(abs(x), [0])",
        '(Unary "abs" (reverse x d))',
        '(reverse (Unary "abs" x) d)',
    ),
    (
        "slice(reverse(x: f32[a], [0]), [0], [1], [1])",
        "reverse(slice(x, [0], [1], [1]), [0])",
        "(slice (reverse x d) s l t)",
        "(reverse (slice x s l t) d)",
    ),
    (
        "slice(slice(x: f32[a + 9], [1], [5], [1]), [1], [3], [1])",
        "slice(x, [2], [4], [1])",
        "(slice (slice x s l t) (Sh u) (Sh v) t)",
        "(slice x (AddShapes s (Sh u)) (AddShapes s (Sh v)) t)",
    ),
    (
        "pad(pad(x: f32[a], const(f32, 0.0), [1], [1], [0]), const(f32, 0.0), [2], [0], [0])",
        "pad(x, const(f32, 0.0), [3], [1], [0])",
        "(pad (pad x v l h i) v m k i)",
        "(pad x v (AddShapes l m) (AddShapes h k) i)",
    ),
    (
        "reshape(reverse(x: f32[a, b], [0]), [a*b])",
        "reverse(reshape(x, [a*b]), [0])",
        "(reshape (reverse x d) s)",
        "(reverse (reshape x s) d)",
    ),
    (
        "reshape(transpose(x: f32[a, b], [1, 0]), [a*b])",
        "reshape(x, [a*b])",
        "(reshape (transpose x p) s)",
        "(reshape x s)",
    ),
    (
        "reshape(reshape(x: f32[a, b], [a*b]), [b, a])",
        "reshape(x, [b, a])",
        "(reshape (reshape x s) u)",
        "(reshape x u)",
    ),
    (
        "broadcast_in_dim(broadcast_in_dim(x: f32[a], [0], [a, b]), [0, 1], [a, b])",
        "broadcast_in_dim(x, [0], [a, b])",
        "(broadcast_in_dim (broadcast_in_dim x d s) f u)",
        "(broadcast_in_dim x d u)",
    ),
    (
        "broadcast_in_dim(x: f32[a], [0], [a])",
        "x",
        "(broadcast_in_dim x d s)",
        "x",
    ),
    (
        "concatenate(x: f32[a], y: f32[b], 0)",
        "concatenate(y, x, 0)",
        "(concatenate (Cons x (Cons y (Nil))) k)",
        "(concatenate (Cons y (Cons x (Nil))) k)",
    ),
    (
        "concatenate(concatenate(x: f32[a], y: f32[b], 0), z: f32[c], 0)",
        "concatenate(x, concatenate(y, z, 0), 0)",
        "(concatenate (Cons (concatenate (Cons x (Cons y (Nil))) k) (Cons z (Nil))) k)",
        "(concatenate (Cons x (Cons (concatenate (Cons y (Cons z (Nil))) k) (Nil))) k)",
    ),
    (
        "concatenate(abs(x: f32[a]), abs(y: f32[b]), 0)",
        "abs(concatenate(x, y, 0))",
        '(concatenate (Cons (Unary "abs" x) (Cons (Unary "abs" y) (Nil))) k)',
        '(Unary "abs" (concatenate (Cons x (Cons y (Nil))) k))',
    ),
    (
        "dot_general(x: f32[m, k], y: f32[k, n], [], [], [1], [0], dtype=f32)",
        "transpose(dot_general(y, x, [], [], [0], [1], dtype=f32), [1, 0])",
        "(dot_general x y lb rb lc rc pr dt)",
        "(transpose (dot_general y x rb lb rc lc pr dt) (vec-of 1 0))",
    ),
    (
        "dot_general(negate(x: f32[m, k]), y: f32[k, n], [], [], [1], [0], dtype=f32)",
        "negate(dot_general(x, y, [], [], [1], [0], dtype=f32))",
        '(dot_general (Unary "negate" x) y lb rb lc rc pr dt)',
        '(Unary "negate" (dot_general x y lb rb lc rc pr dt))',
    ),
    (
        "dot_general(x: f32[m, k], y: f32[k, n], [], [], [1], [0], precision=[HIGHEST, HIGHEST], dtype=f32)",
        "dot_general(x, y, [], [], [1], [0], dtype=f32)",
        "(dot_general x y lb rb lc rc pr dt)",
        "(dot_general x y lb rb lc rc 0 dt)",
    ),
    (
        "gather(x: f32[9], i: i32[k, 1], [], [0], start_index_map=[0], index_vector_dim=1, sizes=[1], sorted=1)",
        "gather(x, i, [], [0], start_index_map=[0], index_vector_dim=1, sizes=[1], sorted=0)",
        "(gather x i o c ob ib m v z 1)",
        "(gather x i o c ob ib m v z 0)",
    ),
    (
        "gather(abs(x: f32[9]), i: i32[k, 1], [], [0], start_index_map=[0], index_vector_dim=1, sizes=[1])",
        "abs(gather(x, i, [], [0], start_index_map=[0], index_vector_dim=1, sizes=[1]))",
        '(gather (Unary "abs" x) i o c ob ib m v z so)',
        '(Unary "abs" (gather x i o c ob ib m v z so))',
    ),
    (
        "gather(x: f32[9], maximum(i: i32[k, 1], j: i32[k, 1]), [], [0], start_index_map=[0], "
        "index_vector_dim=1, sizes=[1])",
        "gather(x, i, [], [0], start_index_map=[0], index_vector_dim=1, sizes=[1])",
        '(gather x (Binary "maximum" i j) o c ob ib m v z so)',
        "(gather x i o c ob ib m v z so)",
    ),
    (
        "dynamic_slice(dynamic_slice(x: f32[9], i: i32[], [5]), j: i32[], [3])",
        "dynamic_slice(x, add(i, j), [3])",
        "(dynamic_slice (dynamic_slice x (Cons i (Nil)) s) (Cons j (Nil)) z)",
        '(dynamic_slice x (Cons (Binary "add" i j) (Nil)) z)',
    ),
    (
        "dynamic_slice(abs(x: f32[9]), i: i32[], [5])",
        "abs(dynamic_slice(x, i, [5]))",
        '(dynamic_slice (Unary "abs" x) i s)',
        '(Unary "abs" (dynamic_slice x i s))',
    ),
    (
        "dynamic_slice(dynamic_update_slice(x: f32[9], u: f32[3], i: i32[]), i, [3])",
        "u",
        "(dynamic_slice (dynamic_update_slice x u i) i z)",
        "u",
    ),
    (
        "dynamic_update_slice(dynamic_update_slice(x: f32[9], u: f32[3], i: i32[]), v: f32[3], i)",
        "dynamic_update_slice(x, v, i)",
        "(dynamic_update_slice (dynamic_update_slice x u i) v i)",
        "(dynamic_update_slice x v i)",
    ),
    (
        "dynamic_update_slice(x: f32[9], dynamic_slice(x, i: i32[], [3]), i)",
        "x",
        "(dynamic_update_slice x (dynamic_slice x i z) i)",
        "x",
    ),
    (
        "convolution(transpose(x: f32[b, n, 2], [0, 2, 1]), w: f32[3, 2, 3], [0, 1, [2], 1, 0, [2], 0, 1, "
        "[2]], [1], [0, 0], [1], [1], [0], dtype=f32)",
        "convolution(x, w, [0, 2, [1], 1, 0, [2], 0, 1, [2]], [1], [0, 0], [1], [1], [0], dtype=f32)",
        "(convolution (transpose x p) w nums st pd ld rd rv fg bg pr dt)",
        "(convolution x w nums st pd ld rd rv fg bg pr dt)",
    ),
    (
        "convolution(negate(x: f32[b, 2, n + 9]), w: f32[3, 2, 3], [0, 1, [2], 1, 0, [2], 0, 1, [2]], [1], "
        "[0, 0], [1], [1], [0], dtype=f32)",
        "negate(convolution(x, w, [0, 1, [2], 1, 0, [2], 0, 1, [2]], [1], [0, 0], [1], [1], [0], dtype=f32))",
        '(convolution (Unary "negate" x) w nums st pd ld rd rv fg bg pr dt)',
        '(Unary "negate" (convolution x w nums st pd ld rd rv fg bg pr dt))',
    ),
]
