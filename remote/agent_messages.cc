#include "remote/agent_messages.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/text.h"

namespace paddle::remote {

using namespace wire::agent;  // NOLINT: this file is about the messages

static_assert(static_cast<int>(remote::ProcessState::kLost) == PROCESS_LOST);
static_assert(static_cast<int>(remote::Activity::kSaving) == wire::ACTIVITY_SAVING);
static_assert(static_cast<int>(remote::Phase::kFailed) == wire::PHASE_FAILED);

namespace {

constexpr std::size_t kStopperBytesMax = 300;
constexpr std::uint64_t kAgeMaxMs = 1ULL << 40U;  // of a sane node

std::int64_t age_of(std::uint64_t ms) {
  return static_cast<std::int64_t>(std::min(ms, kAgeMaxMs));
}

remote::Progress from_wire(const wire::Progress& from) {
  remote::Progress progress;
  progress.unix_ms = from.unix_ms();
  progress.pass = from.pass();
  progress.passes = from.passes();
  if (std::isfinite(from.pass_done())) progress.pass_done = std::clamp(from.pass_done(), 0.F, 1.F);
  progress.cost = from.cost();
  progress.examples_per_second = from.examples_per_second();
  progress.examples_per_busy_second = from.examples_per_busy_second();
  progress.batch = from.batch();
  progress.batch_ms = from.batch_ms();
  progress.updates = from.updates();
  if (wire::Activity_IsValid(from.activity()))
    progress.activity = static_cast<remote::Activity>(from.activity());
  for (const std::uint32_t trainer : from.awaited_trainers()) {
    progress.awaited.push_back("trainer-" + std::to_string(trainer));
  }
  progress.save_failure = from.save_failure();
  progress.went_back = from.went_back();
  for (const wire::Silent& silent : from.silent())
    progress.missed_ms[silent.index()] = age_of(silent.ms());
  return progress;
}

constexpr std::size_t kNameBytesMax = 100;        // as the agent checks them
constexpr std::uint32_t kJobProcessesMax = 4096;  // of a role, as paddlectl starts them
constexpr std::uint32_t kPortMax = 65535;

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax && name[0] != '.' && name[0] != '-' &&
         std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

}  // namespace

remote::JobClaim from_wire(const wire::agent::JobClaim& from) {
  return {job_command_of(from.command()).value_or(JobCommand::kTrain),
          escape_control(from.who().substr(0, kStopperBytesMax)),
          escape_control(from.process().substr(0, kNameBytesMax)),
          escape_control(from.phase().substr(0, kStopperBytesMax))};
}

wire::agent::ProcessSpec to_wire(const remote::ProcessSpec& process) {
  wire::agent::ProcessSpec spec;
  spec.set_job(process.job);
  spec.set_name(process.name);
  spec.set_program(process.program);
  for (const auto& argument : process.arguments) spec.add_arguments(argument);
  spec.mutable_environment()->insert(process.environment.begin(), process.environment.end());
  spec.mutable_defaults()->insert(process.defaults.begin(), process.defaults.end());
  for (const auto& [name, source] : process.sources)
    (*spec.mutable_sources())[name] = static_cast<wire::agent::VariableSource>(source);
  spec.set_directory(process.directory);
  spec.set_log(process.log);
  spec.set_restarts(process.restarts);
  spec.set_any_exit(process.any_exit);
  spec.set_hang_ms(process.hang_ms);
  spec.set_keeps_memory(process.keeps_memory);
  spec.set_trainers(process.trainers);
  spec.set_pservers(process.pservers);
  spec.set_run(process.run);
  for (const PortRange& range : process.ports) {
    auto* const ports = spec.add_ports();
    ports->set_address(range.address);
    ports->set_first(range.first);
    ports->set_count(range.count);
  }
  return spec;
}

Result<remote::ProcessStatus> from_wire(const wire::agent::ProcessStatus& from) {
  if (!is_name(from.job()) || !is_name(from.name())) {
    return Error{Errc::kData,
                 fmt::format("it tells of a process '{}' of job '{}'",
                             escape_control(from.name().substr(0, kNameBytesMax)),
                             escape_control(from.job().substr(0, kNameBytesMax))),
                 "look at the node: no process of ours has such a name"};
  }
  remote::ProcessStatus status;
  status.job = from.job();
  status.name = from.name();
  status.log = from.log();
  if (ProcessState_IsValid(from.state()))
    status.state = static_cast<remote::ProcessState>(from.state());
  status.pid = from.pid();
  status.exit_code = from.exit_code();
  status.signal = from.signal();
  status.started_unix_ms = from.started_unix_ms();
  status.life = from.life();
  status.ended_unix_ms = from.ended_unix_ms();
  status.stopped = from.stopped();
  status.stopped_by = escape_control(from.stopped_by().substr(0, kStopperBytesMax));
  status.stop_ordered = from.stop_ordered();
  status.hang = escape_control(from.hang().substr(0, kNameBytesMax));
  status.out_of_memory_bytes = from.out_of_memory_bytes();
  if (wire::Phase_IsValid(from.notice().phase()))
    status.phase = static_cast<remote::Phase>(from.notice().phase());
  if (status.phase == Phase::kFailed) {
    const wire::Failure& failure = from.notice().failure();
    status.failure = Error{static_cast<Errc>(failure.code()), failure.message(), failure.hint()};
  }
  if (from.notice().has_progress()) status.progress = from_wire(from.notice().progress());
  status.asked_unix_ms = from.asked_unix_ms();
  status.silent_ms = age_of(from.silent_ms());
  if (from.has_unheard_ms()) status.unheard_ms = age_of(from.unheard_ms());
  for (const wire::agent::Restart& restart : from.restarts()) {
    status.restarts.push_back(
        {restart.exit_code(), restart.signal(), restart.ended_unix_ms(), restart.failures(),
         escape_control(restart.hang().substr(0, kNameBytesMax)), restart.out_of_memory_bytes(),
         restart.life(), age_of(restart.age_ms()), restart.ordered()});
  }
  status.restarts_allowed = from.restarts_allowed();
  status.reports = from.reports();
  status.claimed = from.claimed();
  for (const wire::agent::JobClaim& claim : from.claims())
    status.claims.push_back(from_wire(claim));
  status.trainers = std::min(from.trainers(), kJobProcessesMax);
  status.pservers = std::min(from.pservers(), kJobProcessesMax);
  status.run = from.run();
  for (const wire::agent::PortRange& range : from.ports()) {
    if (range.first() == 0 || range.first() > kPortMax) continue;
    if (range.count() > kPortMax + 1 - range.first()) continue;
    status.ports.push_back({escape_control(range.address().substr(0, kNameBytesMax)),
                            static_cast<std::uint16_t>(range.first()),
                            static_cast<std::uint16_t>(range.count())});
  }
  status.arguments.assign(from.arguments().begin(), from.arguments().end());
  for (const wire::agent::Variable& variable : from.gpu_variables()) {
    if (!VariableSource_IsValid(variable.source())) continue;
    status.gpu_variables.push_back({variable.name(), variable.value(),
                                    static_cast<remote::VariableSource>(variable.source())});
  }
  if (!from.has_usage()) return status;
  const wire::agent::Usage& used = from.usage();
  status.usage =
      remote::Usage{used.resident_bytes(), used.cpu_ms(), {}, {}, used.last_output_unix_ms()};
  if (used.has_received_bytes()) status.usage->received_bytes = used.received_bytes();
  if (used.has_sent_bytes()) status.usage->sent_bytes = used.sent_bytes();
  return status;
}

}  // namespace paddle::remote
