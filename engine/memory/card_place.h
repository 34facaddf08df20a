// Places of a dense parameter in the memory of a card, which the host cannot read.
#pragma once

namespace paddle {

struct CardPlace {
  float* value = nullptr;     // null: the host has it, as ever
  float* gradient = nullptr;  // likewise
};

}  // namespace paddle
