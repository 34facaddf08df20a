#include "remote/agent/node/host.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <net/if.h>

#include "base/control_group.h"
#include "base/secret.h"
#include "base/text.h"
#include "base/version.h"
#include "remote/agent/node/gpus.h"
#include "remote/agent/node/proc.h"

namespace paddle::agent {
namespace {

// Reads the version from the text in the node's C library ("... stable release version 2.36."):
// this program is statically linked and knows only its own C library.
std::string glibc_version() {
  for (const char* file : {"/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6",
                           "/usr/lib/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6"}) {
    const std::string library = text_of(file);
    constexpr std::string_view kBefore = " release version ";
    const auto name = library.find("GNU C Library ");
    const auto at = name == std::string::npos ? name : library.find(kBefore, name);
    if (at == std::string::npos) continue;
    const auto begin = at + kBefore.size();
    const auto end = library.find_first_not_of("0123456789.", begin);
    std::string version = library.substr(begin, std::min<std::size_t>(end - begin, 16));
    while (version.ends_with('.')) version.pop_back();
    return version;
  }
  return "";
}

constexpr const char* kFolderIdFile = ".paddlectl-id";
constexpr std::size_t kFolderIdBytes = 16;

// "" if the disk takes no file, or if another agent is just writing it.
std::string folder_id(const Root& root) {
  const int folder = root.fd.get();
  const UniqueFd made(
      ::openat(folder, kFolderIdFile, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (made) {
    std::array<std::byte, kFolderIdBytes> random{};
    std::string id = fill_random(random) ? to_hex(random) : "";
    if (!id.empty() && write_all(made.get(), as_bytes(id), TimePoint::max())) return id;
    ::unlinkat(folder, kFolderIdFile, 0);
    return "";
  }
  const UniqueFd file(::openat(folder, kFolderIdFile, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  std::string id(2 * kFolderIdBytes, '\0');
  if (!file) return "";
  const auto got = ::read(file.get(), id.data(), id.size());
  return got == static_cast<ssize_t>(id.size()) ? id : "";
}

// "model name     : Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz"; other architectures use other keys.
std::string processor() {
  const std::string text = text_of("/proc/cpuinfo");
  for (const char* key : {"model name", "Model", "cpu model"}) {
    std::string value = value_of(text, key);
    value.erase(0, value.find_first_not_of(": \t"));
    if (!value.empty()) return value;
  }
  return "";
}

constexpr int kListenBacklog = 128;

// True if a socket with the local address `local` accepts connections to `address`. The kernel
// writes an address as 32-bit numbers in this machine's byte order: one for IPv4, four for IPv6.
// The wildcards of both families accept the connections, and so does an IPv4 address that is mapped
// into IPv6.
bool accepts_connections_to(const IpEndpoint& address, std::string_view local) {
  std::string own;
  if (address.family() == AF_INET) {
    own = fmt::format("{:08X}",
                      reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr.s_addr);
    constexpr std::string_view kMapped = "0000000000000000FFFF0000";
    if (local.starts_with(kMapped)) local.remove_prefix(kMapped.size());
  } else {
    constexpr std::size_t kDigits = 32;
    if (local.size() != kDigits) return false;
    for (const std::uint32_t part :
         reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr.s6_addr32) {
      own += fmt::format("{:08X}", part);
    }
  }
  return local == own || local.find_first_not_of('0') == std::string_view::npos;
}

// The listening TCP sockets that accept connections to the address: port -> inode (proc_net_tcp(5):
// local address, state 0A, inode).
std::multimap<std::uint32_t, std::uint64_t> listening_inodes(const IpEndpoint& address) {
  std::multimap<std::uint32_t, std::uint64_t> found;
  for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::istringstream lines(text_of(file));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout;
      std::uint64_t inode = 0;
      fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
          timeout >> inode;
      const auto colon = local.rfind(':');
      if (state != "0A" || colon == std::string::npos) continue;
      if (!accepts_connections_to(address, std::string_view(local).substr(0, colon))) continue;
      std::uint32_t port = 0;
      std::from_chars(local.data() + colon + 1, local.data() + local.size(), port, 16);
      found.emplace(port, inode);
    }
  }
  return found;
}

// "pid 123 (name)" for each socket inode visible to this user.
std::map<std::uint64_t, std::string> socket_owners() {
  std::map<std::uint64_t, std::string> owners;
  for (const std::string& pid : names_under("/proc")) {
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    for (const std::uint64_t inode : sockets_of(std::atoi(pid.c_str()))) {
      std::string name = text_of("/proc/" + pid + "/comm");
      if (!name.empty() && name.back() == '\n') name.pop_back();
      owners.emplace(inode, "pid " + pid + " (" + name + ")");
    }
  }
  return owners;
}

struct Interface {
  std::string name, address;
  bool is_loopback = false;
};

// A link-local IPv6 address, which is meaningless on other machines.
bool is_link_local(const sockaddr* address) {
  return address != nullptr && address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// The interfaces that are up, one entry for each address, IPv4 before IPv6.
std::vector<Interface> interfaces() {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    std::string address = address_text(one->ifa_addr);
    if (address.empty() || is_link_local(one->ifa_addr) || (one->ifa_flags & IFF_UP) == 0) continue;
    found.push_back({one->ifa_name, std::move(address), (one->ifa_flags & IFF_LOOPBACK) != 0});
  }
  std::stable_partition(found.begin(), found.end(), [](const Interface& one) {
    return one.address.find(':') == std::string::npos;
  });
  return found;
}

}  // namespace

std::string own_address() {
  for (const Interface& one : interfaces()) {
    if (!one.is_loopback) return one.address;
  }
  return "127.0.0.1";
}

wire::agent::NodeIdentity node_identity(const Root& root) {
  wire::agent::NodeIdentity identity;
  identity.set_folder(folder_id(root));
  // A container has its own process 1, and a container that is started again has another one. The
  // bootstrap command kMachine prints the same text.
  ProcStat first;
  const std::string boot = boot_id();
  if (!boot.empty() && read_stat(1, first))
    identity.set_machine(fmt::format("{}:{}", boot, first.start_ticks));
  return identity;
}

wire::agent::Facts host_facts(const Root& root) {
  wire::agent::Facts facts;
  facts.set_os(value_of(text_of("/etc/os-release"), "PRETTY_NAME="));
  utsname name{};
  ::uname(&name);
  facts.set_kernel(name.release);
  facts.set_architecture(name.machine);
  facts.set_hostname(name.nodename);
  facts.set_cores(usable_cores());
  facts.set_memory_bytes(usable_memory_bytes());
  struct statvfs disk {};
  if (::fstatvfs(root.fd.get(), &disk) == 0) {
    facts.set_disk_free_bytes(std::uint64_t{disk.f_bavail} * disk.f_frsize);
  }
  add_gpu_facts(gpu_places(), facts);
  facts.set_address(own_address());
  for (const Interface& one : interfaces()) {
    auto* const added = facts.add_interfaces();
    added->set_name(one.name);
    added->set_address(one.address);
  }
  facts.set_agent_version(kProgramVersion);
  facts.set_root(root.path);
  facts.set_glibc(glibc_version());
  facts.set_processor(processor());
  const std::time_t now = std::time(nullptr);
  tm local{};
  if (::localtime_r(&now, &local) != nullptr) {
    facts.set_utc_offset_s(static_cast<std::int32_t>(local.tm_gmtoff));
  }
  return facts;
}

std::string address_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address != nullptr && address->sa_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text.data(),
                text.size());
  } else if (address != nullptr && address->sa_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text.data(),
                text.size());
  }
  return text.data();
}

Result<IpEndpoint> parse_ip(const std::string& address, std::uint32_t port) {
  IpEndpoint endpoint;
  auto& v4 = reinterpret_cast<sockaddr_in&>(endpoint.storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(endpoint.storage);
  if (::inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<std::uint16_t>(port));
    endpoint.size = sizeof v4;
    return endpoint;
  }
  if (::inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(static_cast<std::uint16_t>(port));
    endpoint.size = sizeof v6;
    return endpoint;
  }
  return Error{Errc::kUsage, "'" + address + "' is not an IP address", ""};
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

UniqueFd listen_at(const IpEndpoint& at) {
  UniqueFd fd(::socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;  // as in the engine, so that TIME_WAIT does not block a port
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool listens =
      ::bind(fd.get(), at.data(), at.size) == 0 && ::listen(fd.get(), kListenBacklog) == 0;
  return listens ? std::move(fd) : UniqueFd();
}

Result<wire::agent::PortsReply> check_ports(const wire::agent::PortsRequest& request,
                                            const ClaimPort& claim) {
  PADDLE_TRY(const IpEndpoint address, parse_ip(request.address(), 0));
  if (request.first() == 0 || request.count() > kPortsMax ||
      request.first() + request.count() > 65536) {
    return Error{Errc::kUsage, "ports must be in 1..65535, and at most 1024 in one request", ""};
  }
  wire::agent::PortsReply reply;
  for (std::uint32_t port = request.first(); port < request.first() + request.count(); ++port) {
    auto* entry = reply.add_ports();
    entry->set_port(port);
    if (request.claim()) {
      // The port is claimed before it is tested: otherwise another session could claim and open it
      // in between.
      PADDLE_TRY(const std::string other, claim(port));
      entry->set_claimed(!other.empty());
      entry->set_owner(other);
      if (entry->claimed()) continue;
    }
    PADDLE_TRY(const IpEndpoint here, parse_ip(request.address(), port));
    entry->set_free(static_cast<bool>(listen_at(here)));
    if (!entry->free() && (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT)) {
      return Error{Errc::kUsage, request.address() + " is not an address of this node", ""};
    }
  }
  // Only if a port is taken: on a node with many connections these files are long.
  std::optional<std::multimap<std::uint32_t, std::uint64_t>> inodes;
  std::map<std::uint64_t, std::string> owners;
  for (auto& entry : *reply.mutable_ports()) {
    if (entry.free() || entry.claimed()) continue;
    if (!inodes) {
      inodes = listening_inodes(address);
      owners = socket_owners();
    }
    const auto [begin, end] = inodes->equal_range(entry.port());
    for (auto at = begin; at != end; ++at) {
      if (const auto owner = owners.find(at->second); owner != owners.end()) {
        entry.set_owner(owner->second);
      }
    }
  }
  return reply;
}

}  // namespace paddle::agent
