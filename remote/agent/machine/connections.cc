#include "remote/agent/machine/connections.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/fd.h"

namespace paddle::agent {
namespace {

constexpr std::size_t kReplyBytes = 256U << 10U;
constexpr std::size_t kConnectionsMax = 1U << 20U;  // of the machine; more are left out
constexpr timeval kAnswerDeadline{2, 0};
constexpr std::uint32_t kEstablished = 1U << 1U;  // of the states in tcp(7)

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

}  // namespace

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

}  // namespace paddle::agent
