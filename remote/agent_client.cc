#include "remote/agent_client.h"

#include <algorithm>

#include "base/text.h"
#include "proto/agent.pb.h"
#include "proto/agent_channel.h"
#include "proto/keys.h"
#include "remote/agent_messages.h"
#include "remote/bootstrap.h"
#include "remote/exchange/exchange.h"
#include "remote/push/file_push.h"

namespace paddle::remote {
namespace {

using namespace wire::agent;  // NOLINT: this file is about the messages

constexpr Duration kCallDeadline = std::chrono::seconds(30);  // unless NodeSpec::timeout says so
// Beyond the grace: for the agent to end supervisors and verify.
constexpr Duration kStopDeadline = std::chrono::seconds(60);
// Lets an agent whose controller was killed notice that and release its claim.
constexpr auto kClaimWait = std::chrono::seconds(2);
constexpr Duration kTeardownDeadline = std::chrono::minutes(5);
// Bounds the memory that a node's answers take.
constexpr std::size_t kProcessesListedMax = 10'000;
constexpr std::uint64_t kProbeBytesMax = 1U << 30U;  // above what a probe sends

static_assert(static_cast<int>(remote::ProbeOutcome::kStalled) == PROBE_STALLED);

ProbeTarget target_at(const std::string& address, std::uint16_t port) {
  ProbeTarget target;
  target.set_address(address);
  target.set_port(port);
  return target;
}

class FramedAgentClient final : public AgentClient {
 public:
  FramedAgentClient(NodeSpec node, std::unique_ptr<Launcher> launcher, Channel channel)
      : node_(std::move(node)),
        launcher_(std::move(launcher)),
        patience_(node_.timeout > Duration() ? node_.timeout : kCallDeadline),
        exchange_(node_.name, std::move(channel)) {}

  const NodeSpec& node() const override { return node_; }
  Result<HostFacts> facts() override {
    PADDLE_TRY(const auto facts, exchange_.call<Facts>(AGENT_FACTS, PathRequest(), patience_));
    HostFacts out;
    out.os = escape_control(facts.os());
    out.kernel = escape_control(facts.kernel());
    out.architecture = escape_control(facts.architecture());
    out.hostname = escape_control(facts.hostname());
    out.cores = facts.cores();
    out.memory_bytes = facts.memory_bytes();
    out.disk_free_bytes = facts.disk_free_bytes();
    for (const auto& gpu : facts.gpus())
      out.gpus.push_back({escape_control(gpu.model()), escape_control(gpu.uuid())});
    out.address = escape_control(facts.address());
    out.agent_version = escape_control(facts.agent_version());
    out.root = escape_control(facts.root());
    out.glibc = escape_control(facts.glibc());
    out.gpu_driver = escape_control(facts.gpu_driver());
    out.processor = escape_control(facts.processor());
    out.utc_offset_s = facts.utc_offset_s();
    out.cuda_library = escape_control(facts.cuda_library());
    out.nccl_library = escape_control(facts.nccl_library());
    out.cublas_library = escape_control(facts.cublas_library());
    out.visible_gpus = escape_control(facts.visible_gpus());
    for (const auto& one : facts.interfaces())
      out.interfaces.emplace(escape_control(one.address()), escape_control(one.name()));
    return out;
  }
  void set_patience(Duration patience) override { patience_ = patience; }
  void set_interrupted(const std::function<bool()>& interrupted) override {
    files_.set_interrupted(interrupted);
  }
  using AgentClient::push;
  Result<PushStats> push(const std::vector<PushItem>& items, PushSource& source,
                         const PushProgress& progress, const std::string& keep_only) override {
    return FilePush(node_, exchange_, source, progress).run(items, keep_only);
  }
  Result<std::vector<remote::FileEntry>> list(const std::string& folder) override {
    return files_.list(folder, NodeFiles::Listed::kAll);
  }
  Result<std::vector<remote::FileEntry>> list_sizes(const std::string& folder) override {
    return files_.list(folder, NodeFiles::Listed::kSizesOfAll);
  }
  Result<std::vector<remote::FileEntry>> list_own_files(const std::string& folder) override {
    return files_.list(folder, NodeFiles::Listed::kOwnFiles);
  }
  Status fetch(const std::vector<FetchItem>& items) override { return files_.fetch(items); }
  Status remove(const std::string& path) override {
    PathRequest request;
    request.set_path(path);
    return exchange_.order(AGENT_REMOVE, request, {}, kDiskDeadline);
  }
  Status move(const std::string& from, const std::string& to) override {
    MoveRequest request;
    request.set_from(from);
    request.set_to(to);
    return exchange_.order(AGENT_MOVE, request, {}, kDiskDeadline);
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
    return exchange_.order(AGENT_KEYS, request, keys, patience_);
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
  Result<Leftovers> leftovers() override {
    PADDLE_TRY(const auto reply,
               exchange_.call<LeftoversReply>(AGENT_LEFTOVERS, PathRequest(), patience_));
    Leftovers found{{}, reply.process_count(), reply.ended_jobs()};
    for (const auto& process : reply.processes())
      found.processes.push_back(escape_control(process));
    return found;
  }
  Status listen_for_probes(const std::string& address, std::uint16_t port,
                           const Secret& token) override {
    return exchange_.order(AGENT_LISTEN, target_at(address, port), token.reveal(), patience_);
  }
  Status stop_listening() override {
    return exchange_.order(AGENT_LISTEN_END, PathRequest(), {}, patience_);
  }
  Result<ProbeResult> probe(const std::string& address, std::uint16_t port, const Secret& token,
                            std::uint32_t caller) override {
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
  Status start(const remote::ProcessSpec& process) override {
    return exchange_.order(AGENT_START, to_wire(process), {}, patience_);
  }
  Result<std::vector<remote::ProcessStatus>> processes(const std::string& job) override {
    PADDLE_TRY(NodeStatus status, ask(job, false));
    return std::move(status.processes);
  }
  Result<NodeStatus> status(const std::string& job) override { return ask(job, true); }
  Status stop(const std::string& job, const std::vector<std::string>& names,
              Duration grace) override {
    StopRequest request;
    request.set_job(job);
    for (const auto& name : names) request.add_names(name);
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(grace).count();
    request.set_grace_ms(static_cast<std::uint64_t>(std::max<long long>(ms, 0)));
    return exchange_.order(AGENT_STOP, request, {}, grace + kStopDeadline);
  }
  Status ask_to_stop(const std::string& job, const std::vector<std::string>& names) override {
    StopRequest request;
    request.set_job(job);
    for (const auto& name : names) request.add_names(name);
    request.set_ask(true);
    return exchange_.order(AGENT_STOP, request, {}, patience_);
  }
  Status restart(const std::string& job, const std::vector<std::string>& names) override {
    RestartRequest request;
    request.set_job(job);
    for (const auto& name : names) request.add_names(name);
    return exchange_.order(AGENT_RESTART, request, {}, patience_);
  }
  Result<LogChunk> read_log(const std::string& path, std::uint64_t offset, std::uint32_t max_bytes,
                            std::int64_t since_unix_ms) override {
    ReadLogRequest request;
    request.set_path(path);
    request.set_offset(offset);
    request.set_max_bytes(max_bytes);
    request.set_since_unix_ms(since_unix_ms);
    PADDLE_TRY_STATUS(exchange_.send(AGENT_READ_LOG, request, {}, patience_));
    PADDLE_TRY(const Frame frame, exchange_.receive(AGENT_READ_LOG, patience_));
    PADDLE_TRY(const auto reply, exchange_.parse<ReadLogReply>(frame));
    if (frame.tail.size() > max_bytes) {
      return exchange_.lose(Error{Errc::kData, "it sends more of a log than it was asked for", ""});
    }
    LogChunk chunk{std::string(as_text(frame.tail)), reply.next_offset(), reply.size(), {}};
    for (const auto& time : reply.times()) chunk.times.push_back({time.offset(), time.unix_ms()});
    return chunk;
  }
  Result<CommandEnd> run(const CommandSpec& command, const CommandOutput& output,
                         const std::function<bool()>& interrupted) override {
    return run_command(exchange_, command, output, interrupted);
  }
  Result<CopyStats> export_to(const remote::CopyTree& tree, const std::string& inside,
                              const std::string& outside) override {
    return files_.export_to(tree, inside, outside);
  }
  Result<CopyStats> import_from(const std::string& outside, const std::string& inside,
                                remote::CopyTree& tree) override {
    return files_.import_from(outside, inside, tree);
  }
  Result<TeardownReport> teardown(bool keep_data) override {
    TeardownRequest request;
    request.set_keep_data(keep_data);
    PADDLE_TRY(const auto reply,
               exchange_.call<TeardownReply>(AGENT_TEARDOWN, request, kTeardownDeadline));
    TeardownReport report;
    report.processes_ended = reply.processes_ended();
    report.files_removed = reply.files_removed();
    for (const auto& what : reply.remaining()) report.remaining.push_back(escape_control(what));
    return report;
  }

 private:
  Result<NodeStatus> ask(const std::string& job, bool usage) {
    ProcessesRequest request;
    request.set_job(job);
    request.set_usage(usage);
    PADDLE_TRY_STATUS(exchange_.send(AGENT_PROCESSES, request, {}, patience_));
    NodeStatus status;
    const TimePoint end = SteadyClock().now() + patience_;  // of the whole list
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
  std::unique_ptr<Launcher> launcher_;  // outlives the channel
  Duration patience_;                   // with an answer
  Exchange exchange_;
  NodeFiles files_{exchange_};
};

// Prefixes "node <name>", without repeating the name that a launcher's error begins with.
Error named(const NodeSpec& node, Error error) {
  const std::string said = node.name + ": ";
  if (error.message.starts_with(said)) error.message.erase(0, said.size());
  return std::move(error).with("node " + node.name);
}

}  // namespace

Result<std::unique_ptr<AgentClient>> connect(const NodeSpec& node, const ConnectOptions& options) {
  const TimePoint deadline = TimePoint(std::chrono::steady_clock::now()) +
                             (node.timeout > Duration() ? node.timeout : options.deadline);
  auto launcher = make_launcher(node, deadline, options.login);
  if (!launcher) return named(node, std::move(launcher).error());
  auto channel = bootstrap(**launcher, node, options, deadline);
  if (!channel) return named(node, std::move(channel).error());
  if (!channel->fd) return std::unique_ptr<AgentClient>();
  return std::unique_ptr<AgentClient>(
      std::make_unique<FramedAgentClient>(node, std::move(*launcher), *std::move(channel)));
}

Result<std::vector<std::string>> folders_beside(const NodeSpec& node,
                                                const ConnectOptions& options) {
  const TimePoint deadline = TimePoint(std::chrono::steady_clock::now()) +
                             (node.timeout > Duration() ? node.timeout : options.deadline);
  auto launcher = make_launcher(node, deadline, options.login);
  if (!launcher) return named(node, std::move(launcher).error());
  auto names = list_folders_beside(**launcher, node, deadline);
  if (!names) return named(node, std::move(names).error());
  return names;
}

}  // namespace paddle::remote
