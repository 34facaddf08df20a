#include "tests/support/device/fake_driver.h"

#include <utility>

namespace paddle::test {
namespace {

const char* const kHint = "train on CPUs: --use_gpu=false";

}  // namespace

Error no_driver() {
  return {Errc::kResource, "there is no driver of cards: libcuda.so.1 was not found", kHint};
}

Error old_driver() {
  return {Errc::kVersion, "the driver of the cards is too old: it has CUDA 11.4, 13.0 is needed",
          kHint};
}

Error missing_library() {
  return {Errc::kResource, "libcublasLt.so.13 was not found; tried /usr/local/cuda/lib64", kHint};
}

FakeDriver::FakeDriver(std::uint32_t cards, std::size_t memory_bytes, const std::string& serial) {
  for (std::uint32_t i = 0; i < cards; ++i) {
    cards_.push_back({i, "Fake", "GPU-" + serial + "-" + std::to_string(i), memory_bytes});
  }
}

std::string FakeDriver::describe() {
  return error_ ? error_->message
                : "fake driver of " + std::to_string(cards_.size()) + " cards in host memory";
}

Result<std::vector<device::Card>> FakeDriver::cards() {
  if (error_) return *error_;
  if (cards_.empty()) return Error{Errc::kResource, "this machine has no card", kHint};
  return cards_;
}

Result<std::unique_ptr<device::Device>> FakeDriver::open(std::uint32_t index) {
  if (error_) return *error_;
  if (index >= cards_.size()) {
    return Error{Errc::kUsage, "there is no card " + std::to_string(index) + ": this machine has " +
                                   std::to_string(cards_.size())};
  }
  auto opened = std::make_unique<FakeDevice>(FakeDeviceOptions{cards_[index], seed_});
  if (on_open_) on_open_(*opened);
  return std::unique_ptr<device::Device>(std::move(opened));
}

}  // namespace paddle::test
