// Runs the compiled encoder from C++ at the batch and the lengths given, without Python:
//
//   egshape compile examples/encoder.mlir --emit c -o out/c
//   c++ -I out/c examples/cpp/encoder.cpp -o out/encoder out/c/libjit_encoder.so -Wl,-rpath,$PWD/out/c
//   out/encoder 2 7 16
//
// Every input has the elements 0.01 * (k % 17 - 8); the mask is 1. It prints shape and sum of each result.
#include "jit_encoder.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char **argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: %s BATCH LENGTH...\n", argv[0]);
        return 2;
    }
    const int64_t b = std::atoll(argv[1]);
    int64_t error[JIT_ENCODER_ERROR_WORDS], shapes[JIT_ENCODER_OUTPUT_AXES], rooms[JIT_ENCODER_OUTPUTS] = {};
    void *outputs[JIT_ENCODER_OUTPUTS] = {};
    egshape_call call = {};
    call.outputs = outputs;  // empty: the program allocates them, and uses them again while they are large enough
    call.rooms = rooms;
    call.shapes = shapes;
    call.error = error;
    call.threads = JIT_ENCODER_THREADS;
    call.pool = jit_encoder_pool(JIT_ENCODER_THREADS);
    for (int k = 2; k < argc; k++) {
        const int64_t s = std::atoll(argv[k]);
        const std::vector<std::vector<int64_t>> types = {
            {b, s, 32}, {b, s}, {32}, {32}, {64, 32}, {32}, {32, 32}, {32, 32}, {32, 32}, {32}, {32}, {32, 64}, {64},
            {32, 32}};
        std::vector<std::vector<float>> arrays;
        std::vector<const void *> inputs;
        std::vector<int64_t> sizes;
        for (size_t number = 0; number < types.size(); number++) {
            int64_t count = 1;
            for (const int64_t size : types[number]) {
                sizes.push_back(size);
                count *= size;
            }
            std::vector<float> array(static_cast<size_t>(count));
            for (int64_t at = 0; at < count; at++) array[at] = number == 1 ? 1.0f : 0.01f * (at % 17 - 8);
            arrays.push_back(std::move(array));
        }
        for (const auto &array : arrays) inputs.push_back(array.data());
        call.inputs = inputs.data();
        call.sizes = sizes.data();
        if (const int32_t code = jit_encoder_run(&call)) {
            char text[400];
            jit_encoder_explain(&call, code, text, sizeof text);
            std::fprintf(stderr, "%s\n", text);
            return 1;
        }
        double sum = 0;
        const float *result = static_cast<const float *>(outputs[0]);
        for (int64_t at = 0; at < shapes[0] * shapes[1] * shapes[2]; at++) sum += result[at] * (at % 5);
        std::printf("%lld %lld %lld %.6f\n", (long long)shapes[0], (long long)shapes[1], (long long)shapes[2], sum);
    }
    std::free(outputs[0]);
    jit_encoder_release(&call);
}
