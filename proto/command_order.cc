#include "proto/command_order.h"

#include <iterator>
#include <string_view>

#include "base/check.h"

namespace paddle {
namespace {

constexpr std::size_t kCommands = 10;

struct Row {
  JobCommand command;
  const char* name;
  const char* verb;
  bool starts;
  // A letter for each newcomer, in the order of JobCommand: B kBeside, J kJoin, W kWait, R kRefuse,
  // O kOver. docs/nodes.md has the same table in words.
  std::string_view newcomers;
};

// clang-format off
constexpr Row kRows[] = {
  //                                                              newcomers: train
  //                                                                         |train --resume
  //                                                                         ||restart
  //                                                                         |||restart PROCESS
  //                                                                         ||||stop
  //                                                                         |||||stop --now
  //                                                                         ||||||attach
  //                                                                         |||||||fetch
  //                                                                         ||||||||rm
  //                                                                         |||||||||teardown
  {JobCommand::kTrain,          "train",           "starts",         true,  "RRRRWORBRO"},
  {JobCommand::kResume,         "train --resume",  "starts",         true,  "RRRRWORBRO"},
  {JobCommand::kRestart,        "restart",         "restarts",       true,  "RRJJWORBRW"},
  {JobCommand::kRestartProcess, "restart PROCESS", "restarts",       true,  "RRWJWORBRW"},
  {JobCommand::kStop,           "stop",            "saves and ends", false, "RRRRJOBBWW"},
  {JobCommand::kStopNow,        "stop --now",      "ends",           false, "RRRRJJBBWW"},
  {JobCommand::kFinish,         "attach",          "ends",           false, "WWWWBBBBWW"},
  {JobCommand::kFetch,          "fetch",           "fetches",        false, "BBBBBBBBWW"},
  {JobCommand::kRm,             "rm",              "removes",        false, "WWWWWWWWJW"},
  {JobCommand::kTeardown,       "teardown",        "removes",        false, "WWWWWWWWWJ"},
};
// clang-format on
static_assert(std::size(kRows) == kCommands);

std::size_t index_of(JobCommand command) {
  return static_cast<std::size_t>(command) - 1;
}

const Row& row_of(JobCommand command) {
  const Row& row = kRows[index_of(command)];
  PADDLE_CHECK(row.command == command);
  return row;
}

}  // namespace

Order order_of(JobCommand holder, JobCommand newcomer) {
  switch (row_of(holder).newcomers[index_of(newcomer)]) {
    case 'B':
      return Order::kBeside;
    case 'J':
      return Order::kJoin;
    case 'W':
      return Order::kWait;
    case 'O':
      return Order::kOver;
    default:
      return Order::kRefuse;
  }
}

std::vector<JobCommand> all_job_commands() {
  std::vector<JobCommand> all;
  for (const Row& row : kRows) all.push_back(row.command);
  return all;
}

std::string_view name_of(JobCommand command) {
  return row_of(command).name;
}

std::string_view verb_of(JobCommand command) {
  return row_of(command).verb;
}

bool starts_processes(JobCommand command) {
  return row_of(command).starts;
}

std::optional<JobCommand> job_command_of(std::uint32_t number) {
  if (number == 0 || number > kCommands) return std::nullopt;
  return static_cast<JobCommand>(number);
}

}  // namespace paddle
