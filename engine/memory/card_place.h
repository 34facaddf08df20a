// Places of a parameter in the memory of a card, which the host cannot read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paddle {

struct CardPlace {
  float* value = nullptr;     // null: the host has it, as ever
  float* gradient = nullptr;  // likewise
  // Event of the card (device::EventHandle) that comes when all gradients with it are written,
  // while others may still be computed; null: nobody waits for that.
  void* written = nullptr;
};

// Places of a sparse table, for one batch.
struct CardRows {
  CardPlace place;  // of all rows by their number, and of the gradients of the batch's rows
  std::size_t rows_max = 0;                 // rows that there is room for gradients of
  std::vector<std::uint32_t> numbers = {};  // of the batch's rows, in the order of their ids
};

}  // namespace paddle
