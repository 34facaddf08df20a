// Symbolic buffers of floats that the ops of a plan read and write.
#pragma once

#include <cstddef>

namespace paddle::nn {

// Array of floats that an executor gives memory to.
struct Buffer {
  enum class Kind {
    kInput,              // made of the batch by input `index`
    kOutput,             // outputs of layer `index`
    kOutputGradient,     // gradient of the cost with respect to them
    kScratch,            // kept by layer `index` from one of its ops to another
    kParameter,          // value of parameter `index`
    kParameterGradient,  // its gradient, summed over the rows of the run
  };
  // Number of `width` floats in the buffer.
  enum class Rows {
    kRun,    // one for each example
    kTable,  // one for each row of a sparse table that the batch reads
    kOne,
  };

  Kind kind = Kind::kScratch;
  std::size_t index = 0;
  std::size_t width = 0;
  Rows rows = Rows::kRun;
};

// Block of columns in the rows of a buffer. The op that uses it knows how many columns.
struct Region {
  std::size_t buffer = 0;  // in Plan::buffers
  std::size_t column = 0;  // first one
  std::size_t stride = 0;  // floats from one row to the next

  Region columns_from(std::size_t first) const { return {buffer, column + first, stride}; }
  bool operator==(const Region&) const = default;
};

}  // namespace paddle::nn
