#include "remote/agent/process/usage.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>
#include <sstream>
#include <vector>

#include "base/fd.h"

namespace paddle::agent {
namespace {

// Traffic of a TCP connection, as the kernel counts it (sock_diag(7)).
struct Traffic {
  std::uint64_t received_bytes = 0;
  std::uint64_t sent_bytes = 0;  // acknowledged by the peer
};

constexpr std::size_t kReplyBytes = 256U << 10U;
constexpr std::size_t kConnectionsMax = 1U << 20U;  // on the machine; further ones are left out
constexpr timeval kAnswerDeadline{2, 0};
constexpr std::uint32_t kEstablished = 1U << 1U;  // bit of TCP_ESTABLISHED

struct Request {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

void add_traffic(const nlmsghdr& header, std::map<std::uint64_t, Traffic>& found) {
  if (header.nlmsg_len < NLMSG_LENGTH(sizeof(inet_diag_msg))) return;
  const auto* message = static_cast<const inet_diag_msg*>(NLMSG_DATA(&header));
  auto left = static_cast<int>(header.nlmsg_len - NLMSG_LENGTH(sizeof *message));
  for (const auto* attribute = reinterpret_cast<const rtattr*>(message + 1);
       RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
    if (attribute->rta_type != INET_DIAG_INFO) continue;
    // An older kernel's struct is shorter: missing fields stay zero.
    tcp_info info{};
    std::memcpy(&info, RTA_DATA(attribute),
                std::min<std::size_t>(RTA_PAYLOAD(attribute), sizeof info));
    found[message->idiag_inode] = {info.tcpi_bytes_received, info.tcpi_bytes_acked};
  }
}

// False when there is no more to read.
bool read_reply(int fd, std::vector<std::byte>& buffer, std::map<std::uint64_t, Traffic>& found) {
  const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), 0);
  if (got <= 0) return false;
  auto left = static_cast<std::uint32_t>(got);
  for (const auto* header = reinterpret_cast<const nlmsghdr*>(buffer.data());
       NLMSG_OK(header, left); header = NLMSG_NEXT(header, left)) {
    if (header->nlmsg_type == NLMSG_DONE || header->nlmsg_type == NLMSG_ERROR) return false;
    add_traffic(*header, found);
  }
  return found.size() < kConnectionsMax;
}

// The traffic of this machine's TCP connections, by socket inode; empty where the kernel has no
// sock_diag.
std::map<std::uint64_t, Traffic> tcp_traffic() {
  std::map<std::uint64_t, Traffic> found;
  std::vector<std::byte> buffer(kReplyBytes);
  for (const int family : {AF_INET, AF_INET6}) {
    const UniqueFd fd(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    if (!fd) return found;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kAnswerDeadline, sizeof kAnswerDeadline);
    Request request{};
    request.header.nlmsg_len = sizeof request;
    request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.body.sdiag_family = static_cast<std::uint8_t>(family);
    request.body.sdiag_protocol = IPPROTO_TCP;
    request.body.idiag_ext = 1U << (INET_DIAG_INFO - 1U);
    request.body.idiag_states = kEstablished;
    if (::send(fd.get(), &request, sizeof request, 0) != static_cast<ssize_t>(sizeof request)) {
      continue;
    }
    while (read_reply(fd.get(), buffer, found)) {
    }
  }
  return found;
}

void add_process(const ProcStat& process, const std::map<std::uint64_t, Traffic>& traffic,
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
  std::set<pid_t> supervisors;
  for (const Record& record : records) {
    if (record.exit) continue;
    for (const ProcStat& supervisor : supervisors_of({record})) {
      sessions[supervisor.session] = record.spec.job() + "/" + record.spec.name();
      supervisors.insert(supervisor.pid);
    }
  }
  std::map<std::string, wire::agent::Usage> found;
  if (sessions.empty()) return found;
  const auto traffic = tcp_traffic();
  for (const ProcStat& process : own_processes()) {
    const auto session = sessions.find(process.session);
    if (session != sessions.end() && !supervisors.contains(process.pid))
      add_process(process, traffic, found[session->second]);
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
