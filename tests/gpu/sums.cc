#include "tests/gpu/sums.h"

#include <signal.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "engine/gpu/card_group.h"
#include "tests/gpu/card_memory.h"

namespace paddle::test {
namespace {

using device::expect;
using device::in_seconds;

constexpr std::size_t kValues = 100'003;
constexpr int kJoinSeconds = 60;
constexpr int kSumSeconds = 60;
constexpr int kDeadPeerSeconds = 5;  // until a rank gives a peer up

std::vector<float> values_of(std::uint32_t rank) {
  Rng rng(rank);
  std::vector<float> values(kValues);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

Result<device::CommunicatorId> exchange_id(const SumsOptions& options) {
  namespace fs = std::filesystem;
  device::CommunicatorId id{};
  if (options.rank == 0) {
    PADDLE_TRY(id, card().make_communicator_id());
    std::ofstream(options.id_file + ".part", std::ios::binary)
        .write(reinterpret_cast<const char*>(id.data()), static_cast<std::streamsize>(id.size()));
    fs::rename(options.id_file + ".part", options.id_file);
    return id;
  }
  const TimePoint deadline = in_seconds(kJoinSeconds);
  while (!fs::exists(options.id_file)) {
    if (clock_now() >= deadline) {
      return Error{Errc::kUnreachable, "rank 0 has not written " + options.id_file};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::ifstream(options.id_file, std::ios::binary)
      .read(reinterpret_cast<char*>(id.data()), static_cast<std::streamsize>(id.size()));
  return id;
}

struct Summed {
  device::CardGroup& group;
  const device::Stream& stream;
  const device::CardMemory<float>& memory;
};

Status sum(const Summed& of, int seconds) {
  const TimePoint deadline = in_seconds(seconds);
  PADDLE_TRY_STATUS(of.group.sum(of.stream.handle(), of.memory.data(), kValues, deadline));
  PADDLE_TRY(const device::Event done, device::Event::make(card()));
  card().record(of.stream.handle(), done.handle());
  return of.group.wait(done.handle(), deadline, [] { return Status(); });
}

// Checks the values, of which each rank has added its own `times` times.
Status check(const SumsOptions& options, const Summed& of, double times) {
  const std::vector<float> found = device::read(card(), of.stream, of.memory);
  std::vector<double> expected(kValues);
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    const std::vector<float> values = values_of(rank);
    for (std::size_t i = 0; i < kValues; ++i) expected[i] += times * static_cast<double>(values[i]);
  }
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < kValues; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &found[i], sizeof bits);
    hash = mix64(hash + bits);
    if (std::fabs(static_cast<double>(found[i]) - expected[i]) <= 1e-5 * times) continue;
    return Error{Errc::kFailed, "value " + std::to_string(i) + " of the sum is " +
                                    std::to_string(found[i]) + " and not " +
                                    std::to_string(expected[i])};
  }
  std::printf("the sum is right, hash %016llx\n", static_cast<unsigned long long>(hash));
  std::fflush(stdout);
  return {};
}

}  // namespace

Status sum_with_others(const SumsOptions& options) {
  PADDLE_TRY(const device::CommunicatorId id, exchange_id(options));
  // The group ends first: until then the card may compute a sum.
  const device::Stream stream = expect(device::Stream::open(card()));
  const auto memory = device::on_card(card(), stream, values_of(options.rank));
  PADDLE_TRY(const auto group,
             device::CardGroup::join(card(), id, {options.rank, options.ranks, "tests"},
                                     in_seconds(kJoinSeconds)));
  const Summed summed{*group, stream, memory};
  PADDLE_TRY_STATUS(sum(summed, kSumSeconds));
  PADDLE_TRY_STATUS(check(options, summed, 1));
  const bool is_last = options.rank + 1 == options.ranks;
  if (options.last_dies && is_last) ::raise(SIGKILL);
  // Every rank now has the same values, so that their next sum is a multiple.
  const Status second = sum(summed, options.last_dies ? kDeadPeerSeconds : kSumSeconds);
  if (!options.last_dies) {
    PADDLE_TRY_STATUS(second);
    return check(options, summed, options.ranks);
  }
  if (second) return Error{Errc::kFailed, "a sum with a dead rank has ended without an error"};
  std::printf("the dead rank was found: %s\n", second.error().message.c_str());
  return {};
}

}  // namespace paddle::test
