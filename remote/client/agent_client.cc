#include "remote/client/agent_client.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "proto/agent.pb.h"
#include "proto/agent_channel.h"
#include "proto/keys.h"
#include "remote/client/bootstrap.h"
#include "remote/client/exchange.h"
#include "remote/client/file_push.h"

namespace paddle::remote {
namespace {

using namespace wire::agent;  // NOLINT: this file is about the messages

static_assert(static_cast<int>(remote::ProcessState::kLost) == PROCESS_LOST);
static_assert(static_cast<int>(remote::Activity::kSaving) == wire::ACTIVITY_SAVING);
static_assert(static_cast<int>(remote::Phase::kFailed) == wire::PHASE_FAILED);
static_assert(static_cast<int>(remote::ProbeOutcome::kStalled) == PROBE_STALLED);

// For an answer, unless NodeSpec::timeout is set.
constexpr Duration kCallDeadline = std::chrono::seconds(30);
// Added to the grace: time for the agent to end supervisors and verify.
constexpr Duration kStopDeadline = std::chrono::seconds(60);
// Gives an agent whose controller was killed time to notice that and release its claim.
constexpr auto kClaimWait = std::chrono::seconds(2);
constexpr Duration kTeardownDeadline = std::chrono::minutes(5);
// These bound the memory for a node's answers.
constexpr std::size_t kProcessesListedMax = 10'000;
constexpr std::uint32_t kFilePartBytes = 1U << 20U;
constexpr std::uint64_t kProbeBytesMax = 1U << 30U;  // more than a probe sends

// Conversions between the agent's messages about processes and the types of AgentClient.

constexpr std::size_t kStopperBytesMax = 300;
constexpr std::uint64_t kAgeMaxMs = 1ULL << 40U;  // upper bound of an age that a node reports

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
  progress.restored_from = from.restored_from();
  for (const wire::Silent& silent : from.silent())
    progress.missed_ms[silent.index()] = age_of(silent.ms());
  return progress;
}

constexpr std::size_t kNameBytesMax = 100;        // the agent's own limit
constexpr std::uint32_t kJobProcessesMax = 4096;  // per role, as many as paddlectl starts
constexpr std::uint32_t kPortMax = 65535;

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax && name[0] != '.' && name[0] != '-' &&
         std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

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
  spec.mutable_first_folders()->insert(process.first_folders.begin(), process.first_folders.end());
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
  if (process.notify.arguments.empty()) return spec;
  wire::agent::NotifyCommand& notify = *spec.mutable_notify();
  for (const std::string& argument : process.notify.arguments) notify.add_arguments(argument);
  for (const std::string& event : process.notify.events) notify.add_events(event);
  notify.set_timeout_ms(process.notify.timeout_ms);
  notify.set_stalled_ms(process.notify.stalled_ms);
  notify.set_cluster(process.notify.cluster);
  notify.set_node(process.notify.node);
  notify.set_speaks_for_job(process.notify.speaks_for_job);
  notify.set_speaks_for_lost(process.notify.speaks_for_lost);
  for (const std::string& name : process.notify.witness_of) notify.add_witness_of(name);
  return spec;
}

// Converts a node's report. Implausible numbers keep their defaults. kData for names that none of
// our processes has.
Result<remote::ProcessStatus> from_wire(const wire::agent::ProcessStatus& from) {
  if (!is_name(from.job()) || !is_name(from.name())) {
    return Error{Errc::kData,
                 fmt::format("it reports an invalid name: process '{}' of job '{}'",
                             escape_control(from.name().substr(0, kNameBytesMax)),
                             escape_control(from.job().substr(0, kNameBytesMax))),
                 "check the node: paddlectl starts no process with such a name"};
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
  status.incarnation = from.incarnation();
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
  if (from.has_notice_age_ms()) status.notice_age_ms = age_of(from.notice_age_ms());
  for (const wire::agent::Restart& restart : from.restarts()) {
    status.restarts.push_back(
        {restart.exit_code(), restart.signal(), restart.ended_unix_ms(), restart.failures(),
         escape_control(restart.hang().substr(0, kNameBytesMax)), restart.out_of_memory_bytes(),
         restart.incarnation(), age_of(restart.age_ms()), restart.ordered()});
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

// The actions that a client reports.

constexpr std::string_view kJobs = "jobs/";
constexpr int kSignalBase = 128;  // a shell's exit code after a signal

template <class Outcome>
int exit_of(const Outcome& done) {
  return done ? 0 : static_cast<int>(done.error().code);
}
int exit_of(const Result<CommandEnd>& end) {
  if (!end) return static_cast<int>(end.error().code);
  return end->signal != 0 ? kSignalBase + end->signal : end->exit_code;
}

// "jobs/first/output" -> "first"; "" for a path that is not below jobs/.
std::string job_of(std::string_view path) {
  if (!path.starts_with(kJobs)) return "";
  path.remove_prefix(kJobs.size());
  return std::string(path.substr(0, path.find('/')));
}

std::string names_of(const std::vector<std::string>& names) {
  return names.empty() ? "all" : fmt::format("{}", fmt::join(names, " "));
}

// The calls.

ProbeTarget target_at(const std::string& address, std::uint16_t port) {
  ProbeTarget target;
  target.set_address(address);
  target.set_port(port);
  return target;
}

class FramedAgentClient final : public AgentClient {
 public:
  FramedAgentClient(NodeSpec node, std::unique_ptr<Launcher> launcher, Channel channel,
                    OnAction on_action)
      : node_(std::move(node)),
        launcher_(std::move(launcher)),
        on_action_(std::move(on_action)),
        patience_(node_.timeout > Duration() ? node_.timeout : kCallDeadline),
        exchange_(node_.name, std::move(channel)) {}

  const NodeSpec& node() const override { return node_; }
  Result<Facts> facts() override {
    PADDLE_TRY(auto facts, exchange_.call<Facts>(AGENT_FACTS, PathRequest(), patience_));
    make_printable({facts.mutable_os(), facts.mutable_kernel(), facts.mutable_architecture(),
                    facts.mutable_hostname(), facts.mutable_address(),
                    facts.mutable_agent_version(), facts.mutable_root(), facts.mutable_glibc(),
                    facts.mutable_gpu_driver(), facts.mutable_processor(),
                    facts.mutable_cuda_library(), facts.mutable_nccl_library(),
                    facts.mutable_cublas_library(), facts.mutable_visible_gpus()});
    for (auto& gpu : *facts.mutable_gpus())
      make_printable({gpu.mutable_model(), gpu.mutable_uuid()});
    for (auto& one : *facts.mutable_interfaces())
      make_printable({one.mutable_name(), one.mutable_address()});
    return facts;
  }
  void set_patience(Duration patience) override { patience_ = patience; }
  void set_interrupted(const std::function<bool()>& interrupted) override {
    files_.set_interrupted(interrupted);
  }
  using AgentClient::push;
  Result<PushStats> push(const std::vector<PushItem>& items, PushSource& source,
                         const PushProgress& progress, const std::string& keep_only) override {
    const std::string place =
        !keep_only.empty() || items.empty() ? keep_only : items.front().remote_path;
    return report(job_of(place), fmt::format("push {} files", items.size()),
                  FilePush(node_, exchange_, source, progress).run(items, keep_only));
  }
  Result<std::vector<remote::FileEntry>> list(const std::string& folder) override {
    return files_.list(folder, NodeFiles::Listed::kAll);
  }
  Result<std::vector<remote::FileEntry>> list_sizes(const std::string& folder) override {
    return files_.list(folder, NodeFiles::Listed::kSizesOfAll);
  }
  Result<std::vector<remote::FileEntry>> list_all_kinds(const std::string& folder) override {
    return files_.list(folder, NodeFiles::Listed::kAllKinds);
  }
  Result<std::vector<remote::FileEntry>> list_own_files(const std::string& folder) override {
    return files_.list(folder, NodeFiles::Listed::kOwnFiles);
  }
  Status fetch(const std::vector<FetchItem>& items) override {
    return report(items.empty() ? "" : job_of(items.front().remote_path),
                  fmt::format("fetch {} files", items.size()), files_.fetch(items));
  }
  Status remove(const std::string& path) override {
    PathRequest request;
    request.set_path(path);
    return report(job_of(path), "remove " + path,
                  exchange_.order(AGENT_REMOVE, request, {}, kDiskDeadline));
  }
  Status move(const std::string& from, const std::string& to) override {
    MoveRequest request;
    request.set_from(from);
    request.set_to(to);
    return report(job_of(from), fmt::format("move {} to {}", from, to),
                  exchange_.order(AGENT_MOVE, request, {}, kDiskDeadline));
  }
  Result<std::vector<remote::JobClaim>> claim_job(const WantedClaim& wanted) override {
    ClaimRequest request;
    request.set_job(wanted.job);
    request.set_fresh(wanted.fresh);
    request.set_idle(wanted.idle);
    request.set_wait_ms(std::chrono::milliseconds(kClaimWait).count());
    wire::agent::JobClaim& claim = *request.mutable_claim();
    claim.set_command(static_cast<std::uint32_t>(wanted.claim.command));
    claim.set_who(wanted.claim.who);
    claim.set_process(wanted.claim.process);
    claim.set_phase(wanted.claim.phase);
    PADDLE_TRY(const auto reply,
               exchange_.call<ClaimReply>(AGENT_CLAIM, request, kClaimWait + patience_));
    std::vector<remote::JobClaim> others;
    for (const auto& other : reply.others()) others.push_back(from_wire(other));
    return others;
  }
  Status release_job(const std::string& job) override {
    PathRequest request;
    request.set_path(job);
    return exchange_.order(AGENT_STARTED, request, {}, patience_);
  }
  Status write_keys(const std::string& job, const std::string& process, ByteSpan keys) override {
    KeysRequest request;
    request.set_job(job);
    request.set_process(process);
    return report(job, "write the keys of " + process,
                  exchange_.order(AGENT_KEYS, request, keys, patience_));
  }
  Result<std::vector<PortStatus>> check_ports(const std::string& address, std::uint16_t first,
                                              std::uint16_t count) override {
    return ask_ports(address, first, count, false);
  }
  Result<std::vector<PortStatus>> claim_ports(const std::string& address, std::uint16_t first,
                                              std::uint16_t count) override {
    return ask_ports(address, first, count, true);
  }
  Status started() override { return exchange_.order(AGENT_STARTED, PathRequest(), {}, patience_); }
  Result<LeftoversReply> leftovers() override {
    PADDLE_TRY(auto reply,
               exchange_.call<LeftoversReply>(AGENT_LEFTOVERS, PathRequest(), patience_));
    make_printable(*reply.mutable_processes());
    return reply;
  }
  Status listen_for_probes(const std::string& address, std::uint16_t port,
                           const Secret& token) override {
    return report(
        "", fmt::format("listen for probes on port {}", port),
        exchange_.order(AGENT_LISTEN, target_at(address, port), token.reveal(), patience_));
  }
  Status stop_listening() override {
    return exchange_.order(AGENT_LISTEN_END, PathRequest(), {}, patience_);
  }
  Result<ProbeResult> probe(const std::string& address, std::uint16_t port, const Secret& token,
                            std::uint32_t caller) override {
    return report("", fmt::format("probe {}, port {}", address, port),
                  probe_from_node(address, port, token, caller));
  }
  Status start(const remote::ProcessSpec& process) override {
    return report(process.job, "start " + process.name,
                  exchange_.order(AGENT_START, to_wire(process), {}, patience_));
  }
  Result<std::vector<remote::ProcessStatus>> processes(const std::string& job) override {
    PADDLE_TRY(NodeStatus status, ask(job, false));
    return std::move(status.processes);
  }
  Result<NodeStatus> status(const std::string& job) override { return ask(job, true); }
  NodeIdentity identity() const override { return identity_; }
  Status stop(const std::string& job, const std::vector<std::string>& names,
              Duration grace) override {
    StopRequest request;
    request.set_job(job);
    for (const auto& name : names) request.add_names(name);
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(grace).count();
    request.set_grace_ms(static_cast<std::uint64_t>(std::max<long long>(ms, 0)));
    return report(job, "end " + names_of(names),
                  exchange_.order(AGENT_STOP, request, {}, grace + kStopDeadline));
  }
  Status ask_to_stop(const std::string& job, const std::vector<std::string>& names) override {
    StopRequest request;
    request.set_job(job);
    for (const auto& name : names) request.add_names(name);
    request.set_ask(true);
    return report(job, "ask to stop " + names_of(names),
                  exchange_.order(AGENT_STOP, request, {}, patience_));
  }
  Status restart(const std::string& job, const std::vector<std::string>& names) override {
    RestartRequest request;
    request.set_job(job);
    for (const auto& name : names) request.add_names(name);
    return report(job, "restart " + names_of(names),
                  exchange_.order(AGENT_RESTART, request, {}, patience_));
  }
  Result<FilePart> read_file(const std::string& path, std::uint64_t offset, std::uint32_t max_bytes,
                             std::int64_t since_unix_ms) override {
    ReadFileRequest request;
    request.set_path(path);
    request.set_offset(offset);
    request.set_max_bytes(max_bytes);
    request.set_since_unix_ms(since_unix_ms);
    PADDLE_TRY_STATUS(exchange_.send(AGENT_READ_FILE, request, {}, patience_));
    PADDLE_TRY(const Frame frame, exchange_.receive(AGENT_READ_FILE, patience_));
    PADDLE_TRY(const auto reply, exchange_.parse<ReadFileReply>(frame));
    if (frame.tail.size() > max_bytes) {
      return exchange_.lose(Error{Errc::kData, "it sent more bytes than requested", ""});
    }
    FilePart part{std::string(as_text(frame.tail)), reply.next_offset(), reply.size(), {}};
    for (const auto& time : reply.times()) part.times.push_back({time.offset(), time.unix_ms()});
    return part;
  }
  Result<CommandEnd> run(const CommandSpec& command, const CommandOutput& output,
                         const std::function<bool()>& interrupted) override {
    // Arguments may contain a password.
    return report("", "run " + (command.arguments.empty() ? "" : command.arguments.front()),
                  run_command(exchange_, command, output, interrupted));
  }
  Result<CopyReply> export_to(const remote::CopyTree& tree, const std::string& inside,
                              const std::string& outside) override {
    return report("", "put " + outside, files_.export_to(tree, inside, outside));
  }
  Result<CopyReply> import_from(const std::string& outside, const std::string& inside,
                                remote::CopyTree& tree) override {
    return report("", "get " + outside, files_.import_from(outside, inside, tree));
  }
  Result<TeardownReply> teardown(bool keep_data) override {
    return report("", keep_data ? "teardown, keeping data" : "teardown", ask_teardown(keep_data));
  }

 private:
  // Calls on_action, and returns the outcome of the request.
  template <class Outcome>
  Outcome report(const std::string& job, const std::string& text, Outcome outcome) {
    if (on_action_) on_action_(node_, {job, text, exit_of(outcome)});
    return outcome;
  }
  Result<ProbeResult> probe_from_node(const std::string& address, std::uint16_t port,
                                      const Secret& token, std::uint32_t caller) {
    ProbeTarget target = target_at(address, port);
    target.set_caller(caller);
    const Secret key = peer_caller_key(token, caller);
    PADDLE_TRY_STATUS(exchange_.send(AGENT_PROBE, target, key.reveal(), patience_));
    PADDLE_TRY(const Frame frame, exchange_.receive(AGENT_PROBE, kCallDeadline));
    PADDLE_TRY(const auto reply, exchange_.parse<ProbeReply>(frame));
    ProbeResult result;
    result.outcome = ProbeOutcome_IsValid(reply.outcome())
                         ? static_cast<remote::ProbeOutcome>(reply.outcome())
                         : remote::ProbeOutcome::kNoRoute;
    result.detail = escape_control(reply.detail());
    result.round_trip = std::chrono::nanoseconds(std::min(
        reply.round_trip_ns(), static_cast<std::uint64_t>(Duration(kCallDeadline).count())));
    result.bytes_per_second = static_cast<std::uint64_t>(
        static_cast<double>(std::min(reply.bytes(), kProbeBytesMax)) * 1e9 /
        static_cast<double>(std::max<std::uint64_t>(reply.transfer_ns(), 1)));
    return result;
  }
  Result<TeardownReply> ask_teardown(bool keep_data) {
    TeardownRequest request;
    request.set_keep_data(keep_data);
    PADDLE_TRY(auto reply,
               exchange_.call<TeardownReply>(AGENT_TEARDOWN, request, kTeardownDeadline));
    make_printable(*reply.mutable_remaining());
    return reply;
  }
  Result<NodeStatus> ask(const std::string& job, bool usage) {
    ProcessesRequest request;
    request.set_job(job);
    request.set_usage(usage);
    PADDLE_TRY_STATUS(exchange_.send(AGENT_PROCESSES, request, {}, patience_));
    NodeStatus status;
    const TimePoint end = SteadyClock().now() + patience_;  // for the whole list
    for (bool more = true; more;) {
      PADDLE_TRY(const Frame frame, exchange_.receive(AGENT_PROCESSES, end - SteadyClock().now()));
      PADDLE_TRY(const auto reply, exchange_.parse<ProcessesReply>(frame));
      for (const auto& process : reply.processes()) {
        auto read = from_wire(process);
        if (!read) return exchange_.lose(std::move(read).error());
        status.processes.push_back(*std::move(read));
      }
      more = (frame.header.flags & kAgentFlagMore) != 0;
      PADDLE_TRY_STATUS(exchange_.check_list(status.processes.size(), kProcessesListedMax,
                                             more && reply.processes().empty()));
      const wire::agent::NodeUsage& node = reply.node();
      status.node = {node.unix_ms(), node.received_bytes(), node.sent_bytes(),
                     node.memory_available_bytes(), node.cpu_busy_ms()};
      identity_ = {escape_control(reply.identity().folder().substr(0, kNameBytesMax)),
                   escape_control(reply.identity().machine().substr(0, kNameBytesMax))};
    }
    return status;
  }
  Result<std::vector<PortStatus>> ask_ports(const std::string& address, std::uint16_t first,
                                            std::uint16_t count, bool claim) {
    PortsRequest request;
    request.set_address(address);
    request.set_first(first);
    request.set_count(count);
    request.set_claim(claim);
    PADDLE_TRY(const auto reply, exchange_.call<PortsReply>(AGENT_PORTS, request, patience_));
    std::vector<PortStatus> ports;
    for (const auto& port : reply.ports()) {
      ports.push_back({static_cast<std::uint16_t>(port.port()), port.free(),
                       escape_control(port.owner()), port.claimed()});
    }
    return ports;
  }

  NodeSpec node_;
  NodeIdentity identity_;
  std::unique_ptr<Launcher> launcher_;  // outlives the channel
  OnAction on_action_;
  Duration patience_;  // maximum wait for an answer
  Exchange exchange_;
  NodeFiles files_{exchange_};
};

// Prefixes the error with "node <name>: ", unless a launcher has put the name there already.
Error named(const NodeSpec& node, Error error) {
  const std::string said = node.name + ": ";
  if (error.message.starts_with(said)) error.message.erase(0, said.size());
  return std::move(error).with("node " + node.name);
}

}  // namespace

Status check_size(const ProcessSpec& process) {
  return check_request("the arguments and variables", to_wire(process)).with(process.name);
}

std::optional<std::string> AgentClient::read_whole_file(const std::string& path,
                                                        std::size_t bytes_max) {
  std::string text;
  for (;;) {
    const auto part = read_file(path, text.size(), kFilePartBytes);
    if (!part || part->size > bytes_max) return std::nullopt;
    text += part->data;
    if (part->data.empty() || text.size() >= part->size) return text;
  }
}

Result<std::unique_ptr<AgentClient>> connect(const NodeSpec& node, const ConnectOptions& options) {
  const TimePoint deadline = TimePoint(std::chrono::steady_clock::now()) +
                             (node.timeout > Duration() ? node.timeout : options.deadline);
  auto launcher = make_launcher(node, deadline, options.login);
  if (!launcher) return named(node, std::move(launcher).error());
  auto channel = bootstrap(**launcher, node, options, deadline);
  if (!channel) return named(node, std::move(channel).error());
  if (!channel->fd) return std::unique_ptr<AgentClient>();
  return std::unique_ptr<AgentClient>(std::make_unique<FramedAgentClient>(
      node, std::move(*launcher), *std::move(channel), options.on_action));
}

namespace {

// Logs in to the node and asks its shell there.
template <class Answer>
Result<Answer> ask_shell(const NodeSpec& node, const ConnectOptions& options,
                         Result<Answer> (*ask)(Launcher&, const NodeSpec&, TimePoint)) {
  const TimePoint deadline = TimePoint(std::chrono::steady_clock::now()) +
                             (node.timeout > Duration() ? node.timeout : options.deadline);
  auto launcher = make_launcher(node, deadline, options.login);
  if (!launcher) return named(node, std::move(launcher).error());
  auto answer = ask(**launcher, node, deadline);
  if (!answer) return named(node, std::move(answer).error());
  return answer;
}

}  // namespace

Result<std::vector<std::string>> folders_beside(const NodeSpec& node,
                                                const ConnectOptions& options) {
  return ask_shell(node, options, list_folders_beside);
}

Result<std::string> machine_of(const NodeSpec& node, const ConnectOptions& options) {
  return ask_shell(node, options, ask_machine);
}

}  // namespace paddle::remote
