#include "tests/sim/faults.h"

#include "base/rng.h"

namespace paddle::sim {
namespace {

constexpr std::uint64_t kFaultsMax = 4;
constexpr std::uint64_t kWithinMs = 6000;
constexpr std::uint64_t kLongMs = 6000;  // over the silence that ends connections
constexpr std::uint64_t kShortMs = 800;

bool lasts(FaultKind kind) {
  return kind != FaultKind::kKillTrainer && kind != FaultKind::kKillPserver &&
         kind != FaultKind::kKillBoth && kind != FaultKind::kKillAll;
}

}  // namespace

std::vector<Fault> random_faults(std::uint64_t seed, std::uint32_t trainers, std::uint32_t pservers,
                                 std::initializer_list<FaultKind> kinds, Duration from) {
  Rng rng(hash_combine(seed, 0x6661756c7473));
  const auto milliseconds = [&](std::uint64_t below) {
    return Duration(std::chrono::milliseconds(1 + rng.below(below)));
  };
  std::vector<Fault> faults;
  for (std::uint64_t left = 1 + rng.below(kFaultsMax); left > 0; --left) {
    Fault& fault = faults.emplace_back();
    fault.at = from + milliseconds(kWithinMs);
    fault.kind = kinds.begin()[rng.below(kinds.size())];
    fault.trainer = static_cast<std::uint32_t>(rng.below(trainers));
    fault.pserver = static_cast<std::uint32_t>(rng.below(pservers));
    if (lasts(fault.kind)) fault.lasts = milliseconds(rng.below(2) == 0 ? kShortMs : kLongMs);
  }
  return faults;
}

}  // namespace paddle::sim
