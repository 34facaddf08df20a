#include "engine/trainer/card.h"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "base/log.h"
#include "base/text.h"
#include "engine/gpu/device.h"

namespace paddle::trainer {
namespace {

constexpr const char* kOnCpus = "device = \"cpu\" in [train] trains on CPUs instead";

Result<std::uint32_t> index_of(const std::string& selected) {
  std::uint32_t index = 0;
  const char* const end = selected.data() + selected.size();
  const auto [last, error] = std::from_chars(selected.data(), end, index);
  if (selected.empty() || (error == std::errc() && last == end)) return index;
  return Error{Errc::kUsage,
               fmt::format("FLAGS_selected_gpus={}: a trainer computes on one GPU, by its number",
                           escape_control(selected)),
               "start a trainer for each GPU: paddlectl train --gpus"};
}

Error with_way_out(Error error) {
  error.hint = error.hint.empty() ? kOnCpus : error.hint + "; " + kOnCpus;
  return error;
}

}  // namespace

std::string selected_gpus() {
  const char* const value = std::getenv("FLAGS_selected_gpus");
  return value == nullptr ? "" : value;
}

std::string name_of(const device::Card& card) {
  return fmt::format("GPU {} ({})", card.index, card.name);
}

Status check_has_driver(const std::string& key) {
  if (device::driver() != nullptr) return {};
  return Error{Errc::kUsage,
               fmt::format("{}: this program is paddle, which trains on CPUs; paddle-gpu trains on "
                           "GPUs",
                           key),
               fmt::format("use paddle-gpu, as paddlectl train --gpus does; {}", kOnCpus)};
}

Result<std::unique_ptr<device::Device>> open_card(config::TrainDevice asked,
                                                  const std::string& selected) {
  std::unique_ptr<device::Device> none;
  device::Driver* const driver = device::driver();
  if (asked == config::TrainDevice::kCpu) return none;
  if (asked == config::TrainDevice::kAuto) {
    if (driver == nullptr) return none;
    const auto cards = driver->cards();
    if (!cards || cards->empty()) {
      log_info("training on CPUs: {}", cards ? "this machine has no GPU" : cards.error().message);
      return none;
    }
  }
  PADDLE_TRY_STATUS(check_has_driver("[train] device = \"gpu\""));
  PADDLE_TRY(const std::uint32_t index, index_of(selected));
  auto device = driver->open(index);
  if (!device) return with_way_out(std::move(device).error());
  return device;
}

}  // namespace paddle::trainer
