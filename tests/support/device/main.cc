// `paddle` with cards of host memory, for tests: PADDLE_FAKE_CARDS of them (1), of
// PADDLE_FAKE_MEMORY_MIB each (1024), with PADDLE_FAKE_SERIAL in their UUIDs (fake), whose orders
// run as PADDLE_FAKE_SEED says (0); or PADDLE_FAKE_FAILURE: no_driver, old_driver or
// missing_library. What fails later does in the trainer PADDLE_FAKE_FAULTY (0) alone:
// PADDLE_FAKE_ORDER_FAILS or PADDLE_FAKE_ORDER_HANGS, the nth order; PADDLE_FAKE_SUM_FAILS, the nth
// sum; PADDLE_FAKE_UNDER_WAY=1: no call on communicators ends; PADDLE_FAKE_ABORT_HANGS=1.
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "engine/commands/command.h"
#include "engine/math/allocator.h"
#include "tests/support/device/fake_driver.h"

extern char** environ;  // NOLINT: POSIX's name

namespace {

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT: before any thread
  return value == nullptr ? "" : value;
}

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const std::string_view value = variable(name);
  std::from_chars(value.data(), value.data() + value.size(), otherwise);
  return otherwise;
}

void add_faults(paddle::test::FakeDevice& device) {
  if (number("PADDLE_TRAINER_ID", 0) != number("PADDLE_FAKE_FAULTY", 0)) return;
  if (const auto nth = number("PADDLE_FAKE_ORDER_FAILS", 0)) device.fail_order(nth);
  if (const auto nth = number("PADDLE_FAKE_ORDER_HANGS", 0)) device.hang_order(nth);
  paddle::test::FakeSumFaults faults;
  faults.sum_fails = number("PADDLE_FAKE_SUM_FAILS", 0);
  if (number("PADDLE_FAKE_UNDER_WAY", 0) != 0) faults.polls_under_way = paddle::test::kForEver;
  if (number("PADDLE_FAKE_ABORT_HANGS", 0) != 0) {
    faults.in_abort = [] { std::this_thread::sleep_for(std::chrono::hours(1)); };
  }
  device.set_sum_faults(faults);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  paddle::keep_freed_memory();
  const std::string_view serial = variable("PADDLE_FAKE_SERIAL");
  paddle::test::FakeDriver driver(static_cast<std::uint32_t>(number("PADDLE_FAKE_CARDS", 1)),
                                  number("PADDLE_FAKE_MEMORY_MIB", 1024) << 20U,
                                  serial.empty() ? "fake" : std::string(serial));
  driver.set_seed(number("PADDLE_FAKE_SEED", 0));
  driver.on_open(add_faults);
  const std::string_view failure = variable("PADDLE_FAKE_FAILURE");
  if (failure == "no_driver") driver.fail(paddle::test::no_driver());
  if (failure == "old_driver") driver.fail(paddle::test::old_driver());
  if (failure == "missing_library") driver.fail(paddle::test::missing_library());
  paddle::device::set_driver(&driver);
  return paddle::commands::run_program({argv + 1, argv + argc}, environ);
}
