#include "engine/optim/finite.h"

#include <bit>
#include <cstdint>

#include "base/multiversion.h"

namespace paddle::optim {

PADDLE_MULTIVERSION
bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000;  // all ones in an infinity or NaN
  std::uint32_t bad = 0;
  for (const float value : values) {
    bad |=
        static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent);
  }
  return bad == 0;
}

}  // namespace paddle::optim
