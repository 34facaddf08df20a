// Places of a parameter in the memory of a card, which the host cannot read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paddle {

struct CardPlace {
  float* value = nullptr;     // null: the host has it, as ever
  float* gradient = nullptr;  // likewise
};

// Places of a sparse table, for one batch.
struct CardRows {
  CardPlace place;  // of all rows by their number, and of the gradients of the batch's rows
  std::size_t rows_max = 0;                 // rows that there is room for gradients of
  std::vector<std::uint32_t> numbers = {};  // of the batch's rows, in the order of their ids
};

}  // namespace paddle
