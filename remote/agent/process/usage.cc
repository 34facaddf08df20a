#include "remote/agent/process/usage.h"

#include <unistd.h>

#include <sstream>

#include "remote/agent/machine/connections.h"

namespace paddle::agent {
namespace {

void add(const ProcStat& process, const std::map<std::uint64_t, Traffic>& traffic,
         wire::agent::Usage& usage) {
  usage.set_resident_bytes(usage.resident_bytes() + process.resident_bytes);
  usage.set_cpu_ms(usage.cpu_ms() + process.cpu_ms);
  if (traffic.empty()) return;
  Traffic own;
  for (const std::uint64_t inode : sockets_of(process.pid)) {
    const auto found = traffic.find(inode);
    if (found == traffic.end()) continue;
    own.received_bytes += found->second.received_bytes;
    own.sent_bytes += found->second.sent_bytes;
  }
  usage.set_received_bytes(usage.received_bytes() + own.received_bytes);
  usage.set_sent_bytes(usage.sent_bytes() + own.sent_bytes);
}

void add_interfaces(wire::agent::NodeUsage& usage) {
  std::istringstream lines(text_of("/proc/net/dev"));
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::string name;
    std::istringstream(line.substr(0, colon)) >> name;
    if (name == "lo") continue;
    std::istringstream fields(line.substr(colon + 1));
    std::uint64_t received = 0;
    std::uint64_t other = 0;
    std::uint64_t sent = 0;
    fields >> received;
    for (int i = 0; i < 7; ++i) fields >> other;
    fields >> sent;
    usage.set_received_bytes(usage.received_bytes() + received);
    usage.set_sent_bytes(usage.sent_bytes() + sent);
  }
}

}  // namespace

std::map<std::string, wire::agent::Usage> usage_of(const std::vector<Record>& records) {
  std::map<pid_t, std::string> sessions;
  for (const Record& record : records) {
    if (record.exit || !supervisor_alive(record)) continue;
    sessions[record.pid.supervisor()] = record.spec.job() + "/" + record.spec.name();
  }
  std::map<std::string, wire::agent::Usage> found;
  if (sessions.empty()) return found;
  const auto traffic = tcp_traffic();
  for (const ProcStat& process : own_processes()) {
    const auto session = sessions.find(process.session);
    const bool is_supervisor = process.pid == process.session;
    if (session != sessions.end() && !is_supervisor) add(process, traffic, found[session->second]);
  }
  return found;
}

wire::agent::NodeUsage node_usage() {
  wire::agent::NodeUsage usage;
  usage.set_unix_ms(unix_ms());
  add_interfaces(usage);
  std::istringstream memory(text_of("/proc/meminfo"));
  for (std::string key, unit; memory >> key;) {
    std::uint64_t kilobytes = 0;
    memory >> kilobytes;
    std::getline(memory, unit);
    if (key == "MemAvailable:") usage.set_memory_available_bytes(kilobytes * 1024);
  }
  // "cpu user nice system idle iowait irq softirq steal ...", proc(5), in ticks.
  std::istringstream stat(text_of("/proc/stat"));
  std::string label;
  stat >> label;
  std::uint64_t busy = 0;
  for (int i = 0; i < 8; ++i) {
    std::uint64_t ticks = 0;
    stat >> ticks;
    const bool idle = i == 3 || i == 4;
    if (!idle) busy += ticks;
  }
  usage.set_cpu_busy_ms(busy * 1000 / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK)));
  return usage;
}

}  // namespace paddle::agent
