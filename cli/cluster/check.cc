#include "cli/cluster/check.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/cluster/cluster_file.h"
#include "cli/cluster/context.h"
#include "cli/cluster/gpus.h"
#include "cli/cluster/ports.h"
#include "cli/console/console.h"
#include "cli/console/json.h"

namespace paddle::cli {
namespace {

// Faults of the GPUs of nodes that train together.

struct GpuNode {
  const ClusterNode* node = nullptr;
  const wire::agent::Facts* facts = nullptr;              // null: not known
  std::string address;                                    // on the data plane
  std::span<const remote::ProcessStatus> processes = {};  // processes of all jobs
};

struct GpuFault {
  const char* column;  // key in check's table
  std::string reason, next;
};

using wire::agent::Facts;

constexpr int kDriverMajorMin = 580;  // needed by CUDA 13's libraries

// 535 for "535.104.05"; 0 for a text without a number.
int major_of(const std::string& version) {
  int major = 0;
  (void)std::from_chars(version.data(), version.data() + version.size(), major);
  return major;
}

// A GPU that is assigned to one trainer.
struct GpuUse {
  std::string job;
  std::string name;  // its name in CUDA_VISIBLE_DEVICES
  std::string key;
};

std::vector<GpuUse> uses_of(const GpuNode& node) {
  std::vector<GpuUse> uses;
  for (const remote::ProcessStatus& process : node.processes) {
    if (process.state != remote::ProcessState::kRunning) continue;
    const auto value_of = [&](std::string_view name) {
      const auto found = std::ranges::find(process.gpu_variables, name, &remote::Variable::name);
      return found == process.gpu_variables.end() ? std::string() : found->value;
    };
    const std::vector<std::string> visible = gpu_names(value_of("CUDA_VISIBLE_DEVICES"));
    const std::string selected = value_of("FLAGS_selected_gpus");
    std::size_t place = visible.size();
    (void)std::from_chars(selected.data(), selected.data() + selected.size(), place);
    if (node.facts == nullptr || place >= visible.size()) continue;
    const std::string key = gpu_key(*node.facts, node.address, visible[place]);
    if (!key.empty()) uses.push_back({process.job, visible[place], key});
  }
  return uses;
}

class GpuFaultFinder {
 public:
  GpuFaultFinder(const std::vector<GpuNode>& nodes, std::size_t at, bool has_gpu_engine)
      : nodes_(nodes), own_(nodes[at]), facts_(*nodes[at].facts), has_gpu_engine_(has_gpu_engine) {}

  std::vector<GpuFault> find() {
    look_at_names();
    look_for_other_owners();
    if (!facts_.gpus().empty()) {
      look_for_two_jobs();
      look_at_library();
      if (has_gpu_engine_ && own_.node->runs_trainer) look_at_needs();
      compare("gpu_driver", "GPU driver", &Facts::gpu_driver);
      compare("nccl_library", "NCCL", &Facts::nccl_library);
    }
    return std::move(faults_);
  }

 private:
  void look_at_names() {
    const std::vector<std::string>& names = own_.node->gpus;
    const std::string next = fmt::format(
        "is the driver loaded? paddlectl exec --on {} -- nvidia-smi -L", own_.node->spec.name);
    if (gpu_count(facts_) < names.size()) {
      faults_.push_back({"gpus",
                         fmt::format("the cluster file names {}, the node shows {}",
                                     counted(names.size(), "GPU"), gpu_count(facts_)),
                         next});
      return;
    }
    for (const std::string& name : names) {
      if (gpu_number(facts_, name) < gpu_count(facts_)) continue;
      faults_.push_back(
          {"gpus", fmt::format("it shows no GPU {}, which the cluster file names", name), next});
    }
  }

  // Checks only GPUs that the cluster file names, because several nodes on one machine may train
  // without GPUs.
  void look_for_other_owners() {
    for (const std::string& name : own_.node->gpus) {
      const std::string key = gpu_key(facts_, own_.address, name);
      for (const GpuNode& other : nodes_) {
        if (&other == &own_ || other.facts == nullptr || key.empty()) continue;
        const bool has_it = std::ranges::any_of(other.node->gpus, [&](const std::string& theirs) {
          return gpu_key(*other.facts, other.address, theirs) == key;
        });
        if (!has_it) continue;
        faults_.push_back({"gpus",
                           fmt::format("its GPU {} also belongs to node {}: {}", name,
                                       other.node->spec.name, key),
                           "name each GPU in the `gpus` of one node of the cluster file"});
      }
    }
  }

  void look_for_two_jobs() {
    std::map<std::string, std::set<std::string>> jobs;  // by gpu_key
    for (const GpuNode& node : nodes_) {
      for (const GpuUse& use : uses_of(node)) jobs[use.key].insert(use.job);
    }
    std::set<std::string> reported_keys;
    for (const GpuUse& use : uses_of(own_)) {
      if (jobs[use.key].size() < 2 || !reported_keys.insert(use.key).second) continue;
      faults_.push_back(
          {"gpus",
           fmt::format("trainers of jobs {} share its GPU {}", fmt::join(jobs[use.key], " and "),
                       use.name),
           fmt::format("stop one job (paddlectl stop {}), and start it on other GPUs with --gpus",
                       *jobs[use.key].rbegin())});
    }
  }

  void look_at_needs() {
    if (const Status libc = check_libc(*own_.node, facts_); !libc) {
      const std::string name = "node " + own_.node->spec.name + ": ";
      faults_.push_back({"glibc", libc.error().message.substr(name.size()), libc.error().hint});
    }
    const std::string& driver = facts_.gpu_driver();
    if (!driver.empty() && major_of(driver) < kDriverMajorMin) {
      faults_.push_back({"gpu_driver",
                         fmt::format("its driver is {}, but paddle-gpu needs {} or later", driver,
                                     kDriverMajorMin),
                         "install a newer driver, or train there without --gpus"});
    }
    const bool has_own_folder = own_.node->environment.contains("PADDLE_CUDA_LIBRARY_PATH");
    if (facts_.cublas_library().empty() && !has_own_folder) {
      faults_.push_back({"gpu_driver", "it has no libcublasLt.so.13, which paddle-gpu needs",
                         "install CUDA 13's cuBLAS there (libcublas-13-0, or pip install "
                         "nvidia-cublas), or name its folder: env.PADDLE_CUDA_LIBRARY_PATH of the "
                         "node"});
    }
  }

  void look_at_library() {
    const std::string& driver = facts_.gpu_driver();
    const std::string& library = facts_.cuda_library();
    if (driver.empty() || library.empty() || driver == library) return;
    faults_.push_back({"gpu_driver",
                       fmt::format("its driver is {}, but its libcuda is {}, which cannot use it",
                                   driver, library),
                       "an update replaced one of them: reboot the node, or load the new driver"});
  }

  // Compares a version with the one that most nodes with GPUs have; on a tie, with the first
  // node's.
  void compare(const char* column, const char* what, const std::string& (Facts::*version)() const) {
    std::map<std::string, std::size_t> counts;
    std::string usual;
    const GpuNode* example = nullptr;
    for (const GpuNode& node : nodes_) {
      const bool is_compared = node.facts != nullptr && node.node->runs_trainer &&
                               !node.facts->gpus().empty() && !(node.facts->*version)().empty();
      if (is_compared) ++counts[(node.facts->*version)()];
    }
    for (const GpuNode& node : nodes_) {
      if (node.facts == nullptr || !counts.contains((node.facts->*version)())) continue;
      if (example != nullptr && counts[(node.facts->*version)()] <= counts[usual]) continue;
      usual = (node.facts->*version)();
      example = &node;
    }
    const std::string& own = (facts_.*version)();
    if (example == nullptr || own.empty() || own == usual || !own_.node->runs_trainer) return;
    faults_.push_back({column,
                       fmt::format("its {} is {}, but node {} has {}", what, own,
                                   example->node->spec.name, usual),
                       "install one version on all nodes that train together, or leave this one "
                       "out: --on"});
  }

  const std::vector<GpuNode>& nodes_;
  const GpuNode& own_;
  const Facts& facts_;
  const bool has_gpu_engine_;
  std::vector<GpuFault> faults_;
};

// The faults of the node at `at`: GPUs of the cluster file that it does not show, that another node
// names too, or that trainers of two jobs use; a library of another version than the driver; and
// versions that differ from those of most nodes. With `has_gpu_engine`, also what paddle-gpu would
// lack there.
std::vector<GpuFault> gpu_faults(const std::vector<GpuNode>& nodes, std::size_t at,
                                 bool has_gpu_engine) {
  return GpuFaultFinder(nodes, at, has_gpu_engine).find();
}

// Faults of all nodes.

using remote::ProbeOutcome;

constexpr std::size_t kNamesShownMax = 8;

std::string first_names(const std::vector<std::string>& names) {
  const auto shown = std::min(names.size(), kNamesShownMax);
  std::string text = fmt::format(
      "{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

// The bound of the range that is nearer to zero; 0 if the range contains zero.
std::int64_t certain_offset(const std::pair<std::int64_t, std::int64_t>& range) {
  if (range.first > 0) return range.first;
  return range.second < 0 ? range.second : 0;
}

struct OutcomeText {
  const char* key;
  const char* reason;  // after "node-2 (10.0.0.2:7164) "
  const char* next;
};

OutcomeText text_of(ProbeOutcome outcome) {
  switch (outcome) {
    case ProbeOutcome::kReached:
      return {"reached", "", ""};
    case ProbeOutcome::kRefused:
      return {"refused", "is refused",
              "check that `address` belongs to the node; a firewall that rejects looks the same: "
              "open TCP ports {} there"};
    case ProbeOutcome::kTimedOut:
      return {"timed out", "does not answer; a firewall may drop the packets",
              "open TCP ports {} there for the other nodes, and check that `address` is on a "
              "network they share"};
    case ProbeOutcome::kNoRoute:
      return {"no route", "cannot be reached: no route, or a firewall rejects it",
              "check that `address` is on a network the nodes share, and open TCP ports {} there"};
    case ProbeOutcome::kNoProof:
      return {"wrong host", "is answered by another program, not by the node's agent",
              "two machines may have this address, or a proxy is between them: set the right "
              "`address`, or another `port` than {}"};
    case ProbeOutcome::kStalled:
      return {
          "stalled", "is reached, but data does not arrive",
          "compare the MTU of both ends (ip link); a tunnel or VLAN between needs a smaller one; "
          "ports {}"};
  }
  return {"", "", ""};
}

class FaultFinder {
 public:
  explicit FaultFinder(const CheckedCluster& checked) : checked_(checked) {}

  std::vector<Fault> find() {
    for (at_ = 0; at_ < checked_.nodes.size(); ++at_) {
      const NodeFindings& found = checked_.findings[at_];
      if (found.error) {
        faults_.push_back({at_, "state", *found.error});
        continue;
      }
      look_at_machine(found);
      look_at_ports(found);
      look_at_leftovers(found);
      look_at_links(found);
    }
    for (Fault& fault : faults_) {
      if (fault.error.hint.empty()) fault.error.hint = next_step(fault.error);
    }
    return std::move(faults_);
  }

 private:
  const std::vector<GpuNode>& gpu_nodes() {
    if (!gpu_nodes_.empty()) return gpu_nodes_;
    for (std::size_t at = 0; at < checked_.nodes.size(); ++at) {
      const NodeFindings& found = checked_.findings[at];
      gpu_nodes_.push_back({&checked_.cluster.nodes[checked_.nodes[at]],
                            found.error ? nullptr : &found.facts, found.address, found.processes});
    }
    return gpu_nodes_;
  }
  const ClusterNode& node() const { return checked_.cluster.nodes[checked_.nodes[at_]]; }
  void add(const char* column, Errc code, const std::string& reason, std::string next) {
    faults_.push_back(
        {at_, column, {code, "node " + node().spec.name + ": " + reason, std::move(next)}});
  }

  void look_at_machine(const NodeFindings& found) {
    const wire::agent::Facts& facts = found.facts;
    if (facts.architecture() != "x86_64") {
      add("architecture", Errc::kVersion, facts.architecture() + ", but the engine needs x86_64",
          "leave this node out of the cluster file");
    }
    if (found.memory_available_bytes < kMemoryAvailableBytesMin) {
      add("memory_available_bytes", Errc::kResource,
          fmt::format("{} of {} memory are available; a job needs at least {}",
                      human_bytes(found.memory_available_bytes), human_bytes(facts.memory_bytes()),
                      human_bytes(kMemoryAvailableBytesMin)),
          fmt::format(
              "find the processes that use it: paddlectl exec --on {} -- ps aux --sort=-rss",
              node().spec.name));
    }
    if (facts.disk_free_bytes() < kDiskFreeBytesMin) {
      add("disk_free_bytes", Errc::kResource,
          fmt::format("{} free on the disk of {}; a job needs at least {}",
                      human_bytes(facts.disk_free_bytes()), facts.root(),
                      human_bytes(kDiskFreeBytesMin)),
          "free some space, or set another `workdir` in the cluster file");
    }
    for (GpuFault& fault : gpu_faults(gpu_nodes(), at_, checked_.has_gpu_engine))
      add(fault.column, Errc::kResource, fault.reason, std::move(fault.next));
    const auto offset = found.clock_offset_ms ? certain_offset(*found.clock_offset_ms) : 0;
    if (offset > kClockOffsetMsMax || offset < -kClockOffsetMsMax) {
      add("clock_offset_ms", Errc::kFailed,
          fmt::format("its clock is {:.1f} s {} of this machine's",
                      static_cast<double>(std::abs(offset)) / 1000,
                      offset > 0 ? "ahead" : "behind"),
          "synchronise both clocks with NTP: systemctl enable --now systemd-timesyncd (or chrony)");
    }
  }

  void look_at_ports(const NodeFindings& found) {
    if (found.ports_error) faults_.push_back({at_, "ports", *found.ports_error});
    if (found.ports && found.ports->taken) faults_.push_back({at_, "ports", *found.ports->taken});
  }

  void look_at_leftovers(const NodeFindings& found) {
    const wire::agent::LeftoversReply& left = found.leftovers;
    if (left.process_count() == 0) return;
    std::vector<std::string> names(left.processes().begin(), left.processes().end());
    names.resize(
        std::max(names.size(), std::min<std::size_t>(left.process_count(), kNamesShownMax + 1)),
        "...");
    add("leftovers", Errc::kResource,
        fmt::format("{} {} to no running job: {}", counted(left.process_count(), "process"),
                    left.process_count() == 1 ? "belongs" : "belong", first_names(names)),
        fmt::format("end them: paddlectl exec --on {} -- kill PID; or end everything of this "
                    "cluster: paddlectl teardown",
                    node().spec.name));
  }

  // Reports one fault for all nodes that fail to reach this one in the same way.
  void look_at_links(const NodeFindings& found) {
    std::map<ProbeOutcome, std::vector<std::string>> callers;
    std::map<ProbeOutcome, std::string> details;
    for (const Link& link : checked_.links.links) {
      if (link.to != at_ || link.result.outcome == ProbeOutcome::kReached) continue;
      const std::size_t from = checked_.nodes[link.from];
      callers[link.result.outcome].push_back(checked_.cluster.nodes[from].spec.name);
      details.emplace(link.result.outcome, link.result.detail);
    }
    for (const auto& [outcome, names] : callers) {
      const OutcomeText text = text_of(outcome);
      const std::string ports = fmt::format("{}-{}", found.ports->first, found.ports->last);
      add("reached_by", Errc::kUnreachable,
          fmt::format("{} {} (from {}: {})", endpoint_text(found.address, found.ports->first),
                      text.reason, first_names(names), details[outcome]),
          fmt::format(fmt::runtime(text.next), ports));
    }
  }

  const CheckedCluster& checked_;
  std::size_t at_ = 0;
  std::vector<Fault> faults_;
  std::vector<GpuNode> gpu_nodes_;
};

// A summary of a node's links in both directions.
struct LinkSummary {
  std::size_t called = 0, reached = 0;   // links from others: tried, and working
  std::optional<std::uint64_t> slowest;  // bytes a second
  std::optional<Duration> longest_round_trip;
};

LinkSummary summarise(const std::vector<Link>& links, std::size_t at) {
  LinkSummary summary;
  for (const Link& link : links) {
    if (link.from != at && link.to != at) continue;
    const bool good = link.result.outcome == ProbeOutcome::kReached;
    summary.called += link.to == at ? 1 : 0;
    summary.reached += link.to == at && good ? 1 : 0;
    if (!good) continue;
    const std::uint64_t speed = link.result.bytes_per_second;
    summary.slowest = std::min(summary.slowest.value_or(speed), speed);
    summary.longest_round_trip =
        std::max(summary.longest_round_trip.value_or(Duration{}), link.result.round_trip);
  }
  return summary;
}

Cell clock_cell(const NodeFindings& found) {
  if (!found.clock_offset_ms) return empty_cell();
  const std::int64_t offset = certain_offset(*found.clock_offset_ms);
  const std::string text =
      offset == 0 ? "same" : fmt::format("{:+.1f} s", static_cast<double>(offset) / 1000);
  return {text, offset};
}

Cell leftovers_cell(const wire::agent::LeftoversReply& left) {
  std::string text =
      left.process_count() > 0 ? counted(left.process_count(), "process") : std::string();
  if (left.ended_jobs() > 0)
    text += (text.empty() ? "" : ", ") + counted(left.ended_jobs(), "ended job");
  return {text.empty() ? "none" : text,
          Json::object({{"processes", left.process_count()}, {"ended_jobs", left.ended_jobs()}})};
}

Json microseconds(Duration time) {
  return Json::fixed(std::chrono::duration<double, std::micro>(time).count(), 1);
}

Cell round_trip_cell(Duration time) {
  const double ms = std::chrono::duration<double, std::milli>(time).count();
  return {fmt::format("{:.{}f} ms", ms, ms < 10 ? 2 : 0), microseconds(time)};
}

constexpr const char* kStateKey = "state";
constexpr std::size_t kTextColumnsMax = 120;  // width of the text on a terminal that is wider
constexpr int kKeptDropOrder = 1;             // columns up to this stay in the table

std::vector<Column> check_columns() {
  return {{"node", "node"},
          {"address", "address", 1},
          {"os", "os", 6},
          {"arch", "architecture", 7},
          {"glibc", "glibc", 8},
          {"cores", "cores", 3, true},
          {"memory", "memory_bytes", 3, true},
          {"available", "memory_available_bytes", 4, true},
          {"disk free", "disk_free_bytes", 2, true},
          {"gpus", "gpus", 4},
          {"driver", "gpu_driver", 9},
          {"nccl", "nccl_library", 10},
          {"clock", "clock_offset_ms", 5, true},
          {"ports", "ports"},
          {"leftovers", "leftovers", 1},
          {"reached by", "reached_by"},
          {"slowest", "slowest_bytes_per_second", 1, true},
          {"round trip", "longest_round_trip_us", 2, true},
          {kStateKey, kStateKey}};
}

std::vector<Cell> row_of(const CheckedCluster& checked, std::size_t at, std::size_t faults) {
  const NodeFindings& found = checked.findings[at];
  const ClusterNode& node = checked.cluster.nodes[checked.nodes[at]];
  const wire::agent::Facts& facts = found.facts;
  std::vector<Cell> row{text_cell(node.spec.name),
                        text_cell(found.address.empty() ? node.spec.host : found.address)};
  if (found.error) {
    row.resize(check_columns().size() - 1, empty_cell());
    row.push_back(text_cell("FAILED"));
    return row;
  }
  const LinkSummary links = summarise(checked.links.links, at);
  row.insert(
      row.end(),
      {text_cell(facts.os()), text_cell(facts.architecture()),
       facts.glibc().empty() ? empty_cell() : text_cell(facts.glibc()),
       number_cell(std::uint64_t{facts.cores()}), bytes_cell(facts.memory_bytes()),
       bytes_cell(found.memory_available_bytes), bytes_cell(facts.disk_free_bytes()),
       gpus_cell(facts), facts.gpu_driver().empty() ? empty_cell() : text_cell(facts.gpu_driver()),
       facts.nccl_library().empty() ? empty_cell() : text_cell(facts.nccl_library()),
       clock_cell(found),
       found.ports         ? text_cell(found.ports->text())
       : found.ports_error ? text_cell("unknown")
                           : empty_cell(),
       leftovers_cell(found.leftovers),
       links.called > 0 ? text_cell(fmt::format("{} of {}", links.reached, links.called))
                        : empty_cell(),
       links.slowest ? Cell{human_bytes(*links.slowest) + "/s", *links.slowest} : empty_cell(),
       links.longest_round_trip ? round_trip_cell(*links.longest_round_trip) : empty_cell(),
       text_cell(faults == 0 ? "ok" : counted(faults, "fault"))});
  return row;
}

// Takes the columns out of the table that have no fault and one value on all nodes that answered.
// Returns "os Debian GNU/Linux 12, arch x86_64"; "" if there are none.
std::string take_common(Table& table, const CheckedCluster& checked) {
  std::string common;
  for (std::size_t i = table.columns.size(); i-- > 0;) {
    std::set<std::string> values;
    bool has_fault = false;
    for (std::size_t at = 0; at < table.rows.size(); ++at) {
      has_fault = has_fault || table.rows[at][i].fault;
      if (!checked.findings[at].error) values.insert(table.rows[at][i].text);
    }
    const Column& column = table.columns[i];
    if (column.drop_order <= kKeptDropOrder || has_fault || values.size() != 1) continue;
    if (*values.begin() != empty_cell().text) {
      common = fmt::format("{} {}{}{}", column.title, escape_control(*values.begin()),
                           common.empty() ? "" : ", ", common);
    }
    const auto at = static_cast<std::ptrdiff_t>(i);
    table.columns.erase(table.columns.begin() + at);
    for (auto& row : table.rows) row.erase(row.begin() + at);
  }
  return common;
}

}  // namespace

std::vector<Fault> find_faults(const CheckedCluster& checked) {
  return FaultFinder(checked).find();
}

Table check_table(const CheckedCluster& checked, const std::vector<Fault>& faults) {
  Table table{check_columns(), {}};
  for (std::size_t at = 0; at < checked.nodes.size(); ++at) {
    const auto count = static_cast<std::size_t>(std::ranges::count(faults, at, &Fault::node));
    std::vector<Cell> row = row_of(checked, at, count);
    for (const Fault& fault : faults) {
      const auto column = std::ranges::find(table.columns, fault.column, &Column::key);
      if (fault.node != at || column == table.columns.end()) continue;
      Cell& cell = row[static_cast<std::size_t>(column - table.columns.begin())];
      if (!cell.fault) cell.text = "! " + cell.text;
      cell.fault = true;
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string check_text(const CheckedCluster& checked, const std::vector<Fault>& faults,
                       std::size_t columns, bool colour) {
  Table table = check_table(checked, faults);
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const bool has_fault =
        std::ranges::any_of(table.rows, [&](const auto& row) { return row[i].fault; });
    if (has_fault) table.columns[i].drop_order = 0;
  }
  const std::string common = take_common(table, checked);
  const std::size_t width = columns == 0 ? kTextColumnsMax : std::min(columns, kTextColumnsMax);
  std::string text = to_text(table, width, colour);
  if (common.empty()) return text;
  const bool all_answered = std::ranges::none_of(
      checked.findings, [](const NodeFindings& found) { return found.error.has_value(); });
  const std::string nodes = checked.nodes.size() == 1 ? "the node"
                            : all_answered            ? "all nodes"
                                                      : "all nodes that answered";
  return text + wrapped(fmt::format("on {}: {}", nodes, common), width) + "\n";
}

Json check_json(const CheckedCluster& checked, const std::vector<Fault>& faults) {
  const auto name = [&](std::size_t at) {
    return checked.cluster.nodes[checked.nodes[at]].spec.name;
  };
  std::vector<Json> links;
  for (const Link& link : checked.links.links) {
    const remote::ProbeResult& result = link.result;
    const bool good = result.outcome == ProbeOutcome::kReached;
    links.push_back(
        Json::object({{"from", name(link.from)},
                      {"to", name(link.to)},
                      {"outcome", text_of(result.outcome).key},
                      {"detail", result.detail},
                      {"bytes_per_second", good ? Json(result.bytes_per_second) : Json()},
                      {"round_trip_us", good ? microseconds(result.round_trip) : Json()}}));
  }
  std::vector<Json> shown;
  for (const Fault& fault : faults) {
    shown.push_back(Json::object({{"node", name(fault.node)},
                                  {"column", fault.column},
                                  {"code", static_cast<int>(fault.error.code)},
                                  {"reason", fault.error.message},
                                  {"next", fault.error.hint}}));
  }
  return Json::object({{"nodes", to_json(check_table(checked, faults))},
                       {"links", Json::list(links)},
                       {"link_rounds", checked.links.rounds},
                       {"link_rounds_tried", checked.links.rounds_tried},
                       {"stalls", Json::list({checked.stalls.begin(), checked.stalls.end()})},
                       {"faults", Json::list(shown)}});
}

}  // namespace paddle::cli
