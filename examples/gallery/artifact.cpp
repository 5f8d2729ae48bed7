// Softmax over rows of two numbers, at each number of rows that is asked for.
#include "network.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char **argv) {
    for (int k = 1; k < argc; k++) {
        const int64_t rows = std::atoll(argv[k]);
        const std::vector<float> x(2 * rows, 1.0f);
        std::vector<float> y(2 * rows);
        const void *inputs[] = {x.data()};
        void *outputs[] = {y.data()};  // memory of our own; of NULL the program would allocate
        int64_t sizes[] = {rows, 2}, rooms[] = {int64_t(y.size() * sizeof(float))};
        int64_t shapes[NETWORK_OUTPUT_AXES], error[NETWORK_ERROR_WORDS];
        egshape_call call = {};
        call.inputs = inputs, call.sizes = sizes, call.outputs = outputs, call.rooms = rooms;
        call.shapes = shapes, call.error = error, call.threads = 1;
        if (const int32_t code = network_run(&call)) {
            char text[400];
            network_explain(&call, code, text, sizeof text);
            std::fprintf(stderr, "%s\n", text);
            return 1;
        }
        std::printf("%lld rows:", (long long)shapes[0]);
        for (const float each : y) std::printf(" %.3f", each);
        std::printf("\n");
    }
}
