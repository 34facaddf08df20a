#include "cli/cluster/check.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/fake_agent_client.h"

namespace paddle::cli {
namespace {

using remote::ProbeOutcome;
using remote::ProbeResult;

constexpr std::uint64_t kGigabyte = 1'000'000'000;

class NodeCheckTest : public testing::Test {
 protected:
  NodeCheckTest() {
    for (const char* name : {"a", "b", "c"}) {
      ClusterNode node;
      node.spec.name = name;
      cluster.nodes.push_back(node);
      NodeFindings found;
      found.address = std::string("10.0.0.") + name[0];
      found.facts.set_os("Debian");
      found.facts.set_architecture("x86_64");
      found.facts.set_glibc("2.36");
      found.facts.set_cores(8);
      found.facts.set_memory_bytes(16 * kGigabyte);
      found.facts.set_disk_free_bytes(50 * kGigabyte);
      found.facts.set_root("/srv/root");
      found.memory_available_bytes = 8 * kGigabyte;
      found.clock_offset_ms = {-20, 30};
      NodePorts ports;
      ports.first = 7164;
      ports.last = 7167;
      ports.first_is_free = true;
      found.ports = ports;
      checked.findings.push_back(found);
    }
    for (std::size_t from = 0; from < 3; ++from) {
      for (std::size_t to = 0; to < 3; ++to) {
        if (from == to) continue;
        checked.links.links.push_back({from,
                                       to,
                                       {ProbeOutcome::kReached, "", std::chrono::microseconds(200),
                                        (from + to) * 100'000'000}});
      }
    }
  }

  Link& link(std::size_t from, std::size_t to) {
    for (Link& one : checked.links.links) {
      if (one.from == from && one.to == to) return one;
    }
    ADD_FAILURE() << from << " to " << to;
    return checked.links.links[0];
  }
  // The text of a cell by its column's key.
  std::string cell(std::size_t row, const std::string& key) const {
    const Table table = check_table(checked, find_faults(checked));
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      if (table.columns[i].key == key) return table.rows[row][i].text;
    }
    return "no column " + key;
  }
  // Expects exactly one fault, in this cell of node b and with this exit code.
  Error only_fault(const std::string& column, Errc code) const {
    const std::vector<Fault> faults = find_faults(checked);
    EXPECT_EQ(faults.size(), 1U);
    if (faults.size() != 1) return {};
    EXPECT_EQ(faults[0].node, 1U);
    EXPECT_EQ(faults[0].column, column);
    EXPECT_EQ(faults[0].error.code, code);
    EXPECT_TRUE(faults[0].error.message.starts_with("node b: ")) << faults[0].error.message;
    EXPECT_FALSE(faults[0].error.hint.empty());
    EXPECT_TRUE(cell(1, column).starts_with("! ")) << cell(1, column);
    EXPECT_EQ(cell(1, "state"), "1 fault");
    EXPECT_EQ(cell(0, "state"), "ok");
    return faults[0].error;
  }

  ClusterSpec cluster;
  CheckedCluster checked{cluster, {0, 1, 2}, {}, {}};
};

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(NodeCheckTest, AHealthyClusterHasNoFaultAndItsSlowestLinks) {
  EXPECT_TRUE(find_faults(checked).empty());
  EXPECT_EQ(cell(0, "state"), "ok");
  EXPECT_EQ(cell(0, "slowest_bytes_per_second"), "100 MB/s");
  EXPECT_EQ(cell(2, "slowest_bytes_per_second"), "200 MB/s");
  EXPECT_EQ(cell(2, "longest_round_trip_us"), "0.20 ms");
  EXPECT_EQ(cell(0, "reached_by"), "2 of 2");
  EXPECT_EQ(cell(0, "clock_offset_ms"), "same");
  EXPECT_EQ(cell(0, "glibc"), "2.36");
  checked.findings[0].leftovers.set_ended_jobs(2);
  EXPECT_EQ(cell(0, "leftovers"), "2 ended jobs") << "whose results are kept, which is no fault";
  checked.findings[0].ports->job_holds_some = true;
  EXPECT_EQ(cell(0, "ports"), "7164-7167 in use by a job");
  EXPECT_TRUE(find_faults(checked).empty());
}

TEST_F(NodeCheckTest, AnotherArchitecture) {
  checked.findings[1].facts.set_architecture("aarch64");
  EXPECT_TRUE(mentions(only_fault("architecture", Errc::kVersion).message, "aarch64"));
}

TEST_F(NodeCheckTest, LittleMemory) {
  checked.findings[1].memory_available_bytes = 100'000'000;
  EXPECT_TRUE(
      mentions(only_fault("memory_available_bytes", Errc::kResource).message, "100 MB of 16"));
}

TEST_F(NodeCheckTest, AFullDisk) {
  checked.findings[1].facts.set_disk_free_bytes(95'000'000);
  const Error error = only_fault("disk_free_bytes", Errc::kResource);
  EXPECT_TRUE(mentions(error.message, "95 MB free on the disk of /srv/root")) << error.message;
}

TEST_F(NodeCheckTest, FewerGpusThanTheFileNames) {
  cluster.nodes[1].gpus = {"0", "1"};
  remote::set_gpus(checked.findings[1].facts, {{"NVIDIA H100", "GPU-1"}});
  EXPECT_TRUE(
      mentions(only_fault("gpus", Errc::kResource).message, "names 2 GPUs, the node shows 1"));
  cluster.nodes[1].gpus = {"GPU-2"};
  EXPECT_TRUE(mentions(only_fault("gpus", Errc::kResource).message,
                       "shows no GPU GPU-2, which the cluster file names"));
}

TEST_F(NodeCheckTest, OneGpuThatTwoNodesName) {
  cluster.nodes[0].gpus = cluster.nodes[1].gpus = {"0"};
  for (const std::size_t at : {0U, 1U})
    remote::set_gpus(checked.findings[at].facts, {{"T4", "GPU-1"}});
  const std::vector<Fault> faults = find_faults(checked);
  ASSERT_EQ(faults.size(), 2U);
  EXPECT_TRUE(mentions(faults[0].error.message, "its GPU 0 also belongs to node b: GPU-1"))
      << faults[0].error.message;
  remote::set_gpus(checked.findings[1].facts, {{"T4", "GPU-2"}});
  EXPECT_TRUE(find_faults(checked).empty());
  // Nodes of one machine that train without GPUs name none.
  remote::set_gpus(checked.findings[1].facts, {{"T4", "GPU-1"}});
  cluster.nodes[1].gpus.clear();
  EXPECT_TRUE(find_faults(checked).empty());
}

TEST_F(NodeCheckTest, VersionsThatDifferFromThoseOfMostNodes) {
  for (NodeFindings& found : checked.findings) {
    remote::set_gpus(found.facts, {{"T4", ""}});
    found.facts.set_gpu_driver("535.104.05");
    found.facts.set_cuda_library("535.104.05");
    found.facts.set_nccl_library("2.18.5");
  }
  EXPECT_TRUE(find_faults(checked).empty());
  wire::agent::Facts& facts = checked.findings[1].facts;
  facts.set_nccl_library("2.21.5");
  EXPECT_TRUE(mentions(only_fault("nccl_library", Errc::kResource).message,
                       "its NCCL is 2.21.5, but node a has 2.18.5"));
  facts.set_nccl_library("");
  EXPECT_TRUE(find_faults(checked).empty()) << "programs may bring their own";
  facts.set_gpu_driver("550.54.14");
  facts.set_cuda_library("550.54.14");
  EXPECT_TRUE(mentions(only_fault("gpu_driver", Errc::kResource).message,
                       "its GPU driver is 550.54.14, but node a has 535.104.05"));
  cluster.nodes[1].runs_trainer = false;
  EXPECT_TRUE(find_faults(checked).empty()) << "it trains with nobody";
  facts.set_cuda_library("560.1");
  EXPECT_TRUE(mentions(only_fault("gpu_driver", Errc::kResource).message,
                       "its driver is 550.54.14, but its libcuda is 560.1"));
}

TEST_F(NodeCheckTest, WhatPaddleGpuWouldLack) {
  wire::agent::Facts& facts = checked.findings[1].facts;
  remote::set_gpus(facts, {{"T4", "GPU-1"}});
  facts.set_gpu_driver("535.104.05");
  facts.set_cuda_library("535.104.05");
  facts.set_cublas_library("13.0.2.14");
  EXPECT_TRUE(find_faults(checked).empty()) << "this paddlectl has no paddle-gpu";
  checked.has_gpu_engine = true;
  EXPECT_TRUE(mentions(only_fault("gpu_driver", Errc::kResource).message,
                       "its driver is 535.104.05, but paddle-gpu needs 580 or later"));
  facts.set_gpu_driver("580.65.06");
  facts.set_cuda_library("580.65.06");
  EXPECT_TRUE(find_faults(checked).empty());
  facts.set_cublas_library("");
  EXPECT_TRUE(mentions(only_fault("gpu_driver", Errc::kResource).message,
                       "it has no libcublasLt.so.13, which paddle-gpu needs"));
  cluster.nodes[1].environment["PADDLE_CUDA_LIBRARY_PATH"] = "/opt/cuda";
  EXPECT_TRUE(find_faults(checked).empty()) << "the user says where";
  cluster.nodes[1].environment.clear();
  cluster.nodes[1].runs_trainer = false;
  EXPECT_TRUE(find_faults(checked).empty()) << "no trainer runs there";
}

TEST_F(NodeCheckTest, Trap44ALibcThatIsTooOldForPaddleGpu) {
  wire::agent::Facts& facts = checked.findings[1].facts;
  remote::set_gpus(facts, {{"T4", "GPU-1"}});
  facts.set_cublas_library("13.0.2.14");
  facts.set_glibc("2.31");
  EXPECT_TRUE(find_faults(checked).empty()) << "this paddlectl has no paddle-gpu";
  checked.has_gpu_engine = true;
  const Error old = only_fault("glibc", Errc::kResource);
  EXPECT_EQ(old.message, "node b: its glibc is 2.31, but paddle-gpu needs 2.35 or later");
  EXPECT_TRUE(mentions(old.hint, "train on its CPUs, without --gpus"));
  facts.clear_gpus();
  EXPECT_TRUE(find_faults(checked).empty()) << "it has no GPU";
}

TEST_F(NodeCheckTest, Trap29OneGpuThatTrainersOfTwoJobsUse) {
  wire::agent::Facts& facts = checked.findings[1].facts;
  remote::set_gpus(facts, {{"T4", "GPU-1"}, {"T4", "GPU-2"}});
  auto& processes = checked.findings[1].processes;
  const auto add_trainer = [&](const char* job, const char* visible, const char* place) {
    remote::ProcessStatus& process = processes.emplace_back();
    process.job = job;
    process.state = remote::ProcessState::kRunning;
    process.gpu_variables = {{"CUDA_VISIBLE_DEVICES", visible}, {"FLAGS_selected_gpus", place}};
  };
  add_trainer("first", "0,1", "1");
  add_trainer("second", "0", "0");
  EXPECT_TRUE(find_faults(checked).empty());
  add_trainer("second", "GPU-2,GPU-1", "0");
  EXPECT_TRUE(mentions(only_fault("gpus", Errc::kResource).message,
                       "trainers of jobs first and second share its GPU 1"));
  processes.back().state = remote::ProcessState::kExited;
  EXPECT_TRUE(find_faults(checked).empty()) << "one of them has ended";
  add_trainer("third", "0,1", "7");
  add_trainer("third", "x", "0");
  EXPECT_TRUE(find_faults(checked).empty()) << "the user's own nonsense";
}

TEST_F(NodeCheckTest, AClockThatIsCertainlyWrong) {
  checked.findings[1].clock_offset_ms = {-5000, 9000};  // a slow answer proves nothing
  EXPECT_TRUE(find_faults(checked).empty());
  checked.findings[1].clock_offset_ms = {-9100, -9000};
  const Error error = only_fault("clock_offset_ms", Errc::kFailed);
  EXPECT_TRUE(mentions(error.message, "9.0 s behind")) << error.message;
  checked.findings[1].clock_offset_ms = {3600'000, 3600'100};
  EXPECT_TRUE(mentions(only_fault("clock_offset_ms", Errc::kFailed).message, "3600.0 s ahead"));
}

TEST_F(NodeCheckTest, APortOfAStranger) {
  checked.findings[1].ports->taken =
      Error{Errc::kResource, "node b: port 7165 on 10.0.0.b is taken by pid 9 (nginx)", "end it"};
  EXPECT_TRUE(mentions(only_fault("ports", Errc::kResource).message, "nginx"));
  EXPECT_EQ(cell(1, "ports"), "! 7164-7167 taken");
}

TEST_F(NodeCheckTest, AnAddressThatIsNotTheNodes) {
  checked.findings[1].ports.reset();
  checked.findings[1].ports_error =
      Error{Errc::kUsage, "node b: 10.0.0.9 is not an address of this node", "see `address`"};
  std::erase_if(checked.links.links, [](const Link& one) { return one.to == 1; });
  only_fault("ports", Errc::kUsage);
  EXPECT_EQ(cell(1, "ports"), "! unknown");
}

TEST_F(NodeCheckTest, ProcessesOfNoJob) {
  wire::agent::LeftoversReply& left = checked.findings[1].leftovers;
  left.add_processes("pid 12 (paddle)");
  left.set_process_count(1);
  left.set_ended_jobs(3);
  const Error error = only_fault("leftovers", Errc::kResource);
  EXPECT_TRUE(mentions(error.message, "pid 12 (paddle)")) << error.message;
  EXPECT_EQ(cell(1, "leftovers"), "! 1 process, 3 ended jobs");
}

TEST_F(NodeCheckTest, WhatIsInTheWayOnTheDataPlaneIsToldApart) {
  const std::map<ProbeOutcome, std::string> reasons{
      {ProbeOutcome::kRefused, "10.0.0.b:7164 is refused"},
      {ProbeOutcome::kTimedOut, "firewall may drop"},
      {ProbeOutcome::kNoRoute, "no route"},
      {ProbeOutcome::kNoProof, "answered by another program"},
      {ProbeOutcome::kStalled, "data does not arrive"}};
  std::vector<std::string> hints;
  for (const auto& [outcome, reason] : reasons) {
    link(0, 1).result = {outcome, "why", {}, 0};
    link(2, 1).result = {outcome, "why", {}, 0};
    const Error error = only_fault("reached_by", Errc::kUnreachable);
    EXPECT_TRUE(mentions(error.message, reason)) << error.message;
    EXPECT_TRUE(mentions(error.message, "(from a, c: why)")) << error.message;
    EXPECT_TRUE(mentions(error.hint, "7164-7167")) << error.hint;
    EXPECT_EQ(std::ranges::count(hints, error.hint), 0);
    hints.push_back(error.hint);
    EXPECT_EQ(cell(1, "reached_by"), "! 0 of 2");
  }
}

TEST_F(NodeCheckTest, ANodeNotReachedIsARow) {
  checked.findings[1] = {};
  checked.findings[1].error = Error{Errc::kUnreachable, "node b: no route", "plug it in"};
  std::erase_if(checked.links.links, [](const Link& one) { return one.to == 1 || one.from == 1; });
  const std::vector<Fault> faults = find_faults(checked);
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].error.code, Errc::kUnreachable);
  EXPECT_EQ(cell(1, "state"), "! FAILED");
  EXPECT_EQ(cell(0, "reached_by"), "1 of 1");
}

TEST_F(NodeCheckTest, JsonHasEveryPairAndEveryFault) {
  link(0, 1).result = {ProbeOutcome::kTimedOut, "Connection timed out", {}, 0};
  const std::string json = check_json(checked, find_faults(checked)).text();
  EXPECT_TRUE(mentions(json, R"({"from": "a", "to": "b", "outcome": "timed out", )")) << json;
  EXPECT_TRUE(mentions(json, R"({"from": "b", "to": "a", "outcome": "reached", "detail": "", )"
                             R"("bytes_per_second": 100000000, "round_trip_us": 200.0})"))
      << json;
  EXPECT_TRUE(mentions(json, R"("faults": [{"node": "b", "column": "reached_by", "code": 4, )"))
      << json;
  EXPECT_TRUE(mentions(json, R"("clock_offset_ms": 0)"));
}

// The output of `check`.
class CheckText : public NodeCheckTest {
 protected:
  CheckText() {
    for (NodeFindings& found : checked.findings) {
      found.facts.set_os("Red Hat Enterprise Linux 9.4 (Plow)");
      remote::set_gpus(found.facts,
                       {{"NVIDIA H100 80GB HBM3", "GPU-1"}, {"NVIDIA H100 80GB HBM3", "GPU-2"}});
      found.facts.set_gpu_driver("535.104.05");
      found.facts.set_cuda_library("535.104.05");
      found.facts.set_nccl_library("2.18.5");
    }
  }
  std::string text(std::size_t columns = 0) const {
    return check_text(checked, find_faults(checked), columns, false);
  }
  std::string head() const { return text().substr(0, text().find('\n')); }
  static std::size_t widest(const std::string& text) {
    std::size_t columns = 0;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      columns = std::max(columns, display_width(text.substr(begin, end - begin)));
      begin = end + 1;
    }
    return columns;
  }
};

TEST_F(CheckText, HasWhatAllNodesHaveInCommonBelowTheTable) {
  EXPECT_EQ(head(), "node  address   ports           leftovers  reached by   slowest  state");
  EXPECT_TRUE(mentions(text(),
                       "on all nodes: os Red Hat Enterprise Linux 9.4 (Plow), arch x86_64, glibc "
                       "2.36, cores 8, memory 16 GB,"))
      << text();
  EXPECT_TRUE(mentions(text(), "driver 535.104.05, nccl 2.18.5, clock same")) << text();
  for (const std::size_t columns : {0U, 80U, 120U, 200U}) {
    EXPECT_LE(widest(text(columns)), columns == 80 ? 80U : 120U) << text(columns);
  }
  // Machines without GPUs have no driver, which is not said.
  for (NodeFindings& found : checked.findings) {
    found.facts.clear_gpus();
    found.facts.set_gpu_driver("");
    found.facts.set_nccl_library("");
  }
  EXPECT_TRUE(mentions(text(), "gpus none, clock same")) << text();
  EXPECT_FALSE(mentions(text(), "driver")) << text();
}

TEST_F(CheckText, HasColumnsForWhatDiffers) {
  checked.findings[1].facts.set_glibc("2.35");
  checked.findings[2].facts.set_cores(64);
  EXPECT_TRUE(mentions(head(), "glibc")) << head();
  EXPECT_TRUE(mentions(head(), "cores")) << head();
  EXPECT_FALSE(mentions(text(), "glibc 2")) << text();
  // A node that did not answer has no value that differs.
  checked.findings[1] = {};
  checked.findings[1].error = Error{Errc::kUnreachable, "node b: no route", "plug it in"};
  std::erase_if(checked.links.links, [](const Link& one) { return one.to == 1 || one.from == 1; });
  EXPECT_FALSE(mentions(head(), "glibc")) << head();
  EXPECT_TRUE(mentions(text(), "on all nodes that answered: os Red Hat")) << text();
  EXPECT_TRUE(mentions(text(), "! FAILED")) << text();
}

TEST_F(CheckText, NeverLacksAFault) {
  checked.has_gpu_engine = true;
  for (NodeFindings& found : checked.findings) {
    found.facts.set_architecture("aarch64");
    found.facts.set_glibc("2.31");
  }
  const std::string all = text();
  for (const char* const title : {"arch", "glibc", "driver"})
    EXPECT_TRUE(mentions(head(), title)) << all;
  EXPECT_TRUE(mentions(all, "! aarch64")) << all;
  EXPECT_TRUE(mentions(all, "! 2.31")) << all;
  EXPECT_TRUE(mentions(all, "! 535.104.05")) << all;
  EXPECT_TRUE(mentions(all, "on all nodes: os Red Hat Enterprise Linux 9.4 (Plow), cores 8"))
      << all;
  EXPECT_LE(widest(all), 120U) << all;
  EXPECT_TRUE(mentions(text(60), "! aarch64")) << "however narrow the terminal is\n" << text(60);
}

TEST_F(CheckText, IsNarrowWhereEveryColumnDiffersAndJsonHasThemAll) {
  std::size_t number = 0;
  for (NodeFindings& found : checked.findings) {
    ++number;
    found.address = fmt::format("2001:db8:1234:5678:9abc:def0:1234:{}", number);
    wire::agent::Facts& facts = found.facts;
    facts.set_os(facts.os() + fmt::format(" {}", number));
    facts.set_glibc(facts.glibc() + fmt::format(".{}", number));
    facts.set_cores(facts.cores() + static_cast<std::uint32_t>(number));
    facts.set_memory_bytes(facts.memory_bytes() * number);
    found.memory_available_bytes *= number;
    facts.set_disk_free_bytes(facts.disk_free_bytes() * number);
    std::vector<remote::GpuNames> gpus(2 + number, {"Tesla T4", ""});
    gpus.front().uuid = fmt::format("GPU-{}", number);
    remote::set_gpus(facts, gpus);
    found.clock_offset_ms = {number * 500, number * 501};
    found.leftovers.set_ended_jobs(static_cast<std::uint32_t>(number));
  }
  EXPECT_LE(widest(text()), 120U) << text();
  EXPECT_LE(widest(text(200)), 120U) << text();
  EXPECT_TRUE(mentions(text(), "(too narrow for: ")) << text();
  const std::string json = check_json(checked, find_faults(checked)).text();
  for (const char* const key :
       {"node", "address", "os", "architecture", "glibc", "cores", "memory_bytes",
        "memory_available_bytes", "disk_free_bytes", "gpus", "gpu_driver", "nccl_library",
        "clock_offset_ms", "ports", "leftovers", "reached_by", "slowest_bytes_per_second",
        "longest_round_trip_us", "state"}) {
    EXPECT_TRUE(mentions(json, fmt::format("\"{}\": ", key))) << key;
  }
}

TEST_F(CheckText, OfOneNodeIsNarrowToo) {
  checked.nodes = {0};
  checked.findings.resize(1);
  checked.links.links.clear();
  EXPECT_LE(widest(text()), 120U) << text();
  EXPECT_TRUE(mentions(text(), "on the node: os Red Hat")) << text();
}

}  // namespace
}  // namespace paddle::cli
