#include "cli/cluster/cluster_file.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/text.h"
#include "cli/cluster/node_list.h"
#include "engine/config/toml_reader.h"
#include "remote/client/bootstrap.h"
#include "remote/launcher/launcher.h"
#include "remote/launcher/ssh_target.h"
#include "remote/launcher/ssh_tokens.h"
#include "remote/launcher/trusted_file.h"

namespace paddle::cli {

struct NodeDefaults {
  std::string workdir;
  bool names_workdir = false;  // the file has a `workdir`
  std::uint16_t port = kDefaultPort;
  std::uint16_t ssh_port = 0;
  std::string user, identity, jump, known_hosts, directory;
  std::map<std::string, std::string> environment;
  std::string folder;  // the cluster file's folder
};

namespace {

using config::TomlTable;
using Defaults = NodeDefaults;

constexpr std::int64_t kPortMax = 65535;
constexpr const char* kNameHint = "use letters, digits, '.', '-' and '_'";
constexpr const char* kCommandHint = "write launcher = [\"podman\", \"exec\", \"-i\", \"node-1\"]";
constexpr std::int64_t kPortsOfOnePserverMax = 64;
constexpr const char* kOwnVariables = "PADDLECTL_";
constexpr std::array<std::string_view, 3> kTransports{"sealed", "always", "clear"};
constexpr std::int64_t kCapacityMax = 4096;
constexpr std::int64_t kLocalNodesMax = 1024;  // in one [[node]]
// Limit on the memory for the groups and variables of all nodes; one [[node]] table may describe
// thousands of nodes.
constexpr std::size_t kNodesBytesMax = 64U << 20U;
constexpr std::size_t kGroupsMax = 256;
constexpr std::size_t kGpuEntriesMax = 256;
constexpr std::size_t kArgumentsMax = 256;
constexpr std::size_t kTextBytesMax = 1024;  // length of a user, a path or a jump
constexpr std::size_t kElementBytes = 64;    // memory of a list's element, beside its text

// Names and memory of all nodes read so far.
struct NodesRead {
  std::set<std::string, std::less<>> names;
  std::size_t bytes = 0;
};

// Reads a text that is copied into every node of the table, so its length is limited.
std::string read_text(TomlTable& table, std::string_view key, const std::string& otherwise) {
  std::string text = table.string(key, otherwise);
  if (text.size() <= kTextBytesMax) return text;
  table.fail(key, fmt::format("'{}' is over {} bytes long", key, kTextBytesMax));
  return otherwise;
}

// Reads a path. A relative one is taken from the cluster file's folder; a leading "~" stays and
// means the user's home.
std::string read_path(TomlTable& table, std::string_view key, const std::string& otherwise,
                      const std::string& folder) {
  std::string path = read_text(table, key, otherwise);
  const bool relative = !path.empty() && path.front() != '/' && path.front() != '~';
  return relative ? (std::filesystem::path(folder) / path).lexically_normal().string() : path;
}

std::string read_user(TomlTable& table, const std::string& otherwise) {
  std::string user = table.string("user", otherwise);
  if (user.empty() || !table.has("user")) return user;
  const auto good = remote::check_user_name(user);
  if (good) return user;
  table.fail("user", good.error().message, good.error().hint);
  return otherwise;
}

std::vector<std::string> expand(TomlTable& table, std::string_view key) {
  const std::string pattern = table.string(key);
  if (pattern.empty()) return {};
  auto names = expand_list(pattern);
  if (names) return *std::move(names);
  table.fail(key, names.error().message, names.error().hint);
  return {};
}

// Reads addresses such as "10.1.0.[1-2]"; an IPv6 address may be in brackets.
std::vector<std::string> read_addresses(TomlTable& table) {
  std::vector<std::string> addresses = expand(table, "address");
  for (std::string& address : addresses) {
    const HostWord split = split_host(address);
    if (split.has_number || !split.user.empty()) {
      table.fail("address", fmt::format("'{}' is not an address", address),
                 "write an address without a port; set the first port with `port`");
      return {};
    }
    if (split.host.find('%') != std::string::npos) {
      table.fail("address",
                 fmt::format("'{}' has a zone, which is valid on one machine only", address),
                 "use an address that all nodes can reach");
      return {};
    }
    // Ports are counted per address, so each address gets one spelling.
    in6_addr ip{};
    std::array<char, INET6_ADDRSTRLEN> text{};
    const bool is_ip = ::inet_pton(AF_INET6, split.host.c_str(), &ip) == 1;
    if (is_ip) ::inet_ntop(AF_INET6, &ip, text.data(), text.size());
    address = is_ip ? std::string(text.data()) : split.host;
  }
  return addresses;
}

// Checks that the private key can be read. A mistyped file name would otherwise go unnoticed,
// because login skips it like a key that the server refuses.
std::string read_identity(TomlTable& table, const std::string& otherwise,
                          const std::string& folder) {
  std::string identity = read_path(table, "identity", otherwise, folder);
  if (!table.has("identity") || identity.empty()) return identity;
  const std::string path = remote::expand_home(identity);
  if (::access(path.c_str(), R_OK) == 0) return identity;
  table.fail(
      "identity", system_error(Errc::kUsage, "cannot read the private key " + path).message,
      "name a key file on this machine, or remove `identity` to use ssh-agent and ~/.ssh/id_*");
  return identity;
}

// Reads "TYPE BASE64", as in a .pub file; a comment behind it is left out.
std::string read_host_key(TomlTable& table) {
  const std::string text = read_text(table, "host_key", "");
  if (text.empty()) return "";
  const std::size_t space = text.find(' ');
  const std::size_t end = space == std::string::npos ? space : text.find(' ', space + 1);
  std::string key = text.substr(0, end);
  const bool is_plain = std::ranges::all_of(key, [](char c) { return c >= ' ' && c < 0x7f; });
  if (space != std::string::npos && space > 0 && space + 1 < key.size() && is_plain) return key;
  table.fail("host_key", "'host_key' is no public key",
             "write host_key = \"ssh-ed25519 AAAA...\", as in /etc/ssh/ssh_host_ed25519_key.pub");
  return "";
}

std::string read_workdir(TomlTable& table, const std::string& otherwise) {
  std::string workdir = read_text(table, "workdir", otherwise);
  if (!table.has("workdir")) return workdir;
  if (!workdir.starts_with('/') && !workdir.starts_with("~/")) {
    table.fail("workdir", "workdir must begin with '/' or '~/'");
  } else if (const auto safe = remote::check_shell_path(workdir); !safe) {
    table.fail("workdir", safe.error().message, safe.error().hint);
  }
  // "~/w/" and "/data//w" are the folders "~/w" and "/data/w"; "/" is "", before "/<cluster>".
  const auto repeated = std::unique(workdir.begin(), workdir.end(),
                                    [](char a, char b) { return a == '/' && b == '/'; });
  workdir.erase(repeated, workdir.end());
  if (workdir.ends_with('/')) workdir.pop_back();
  return workdir;
}

void read_roles(TomlTable& table, ClusterNode& node) {
  if (!table.has("roles")) return;
  node.runs_pserver = node.runs_trainer = false;
  for (const std::string& role : table.strings("roles")) {
    if (role == "pserver") {
      node.runs_pserver = true;
    } else if (role == "trainer") {
      node.runs_trainer = true;
    } else {
      table.fail("roles", fmt::format("unknown role '{}'", role), "use \"pserver\" or \"trainer\"");
    }
  }
  if (!node.runs_pserver && !node.runs_trainer)
    table.fail("roles", "a node needs at least one role");
}

void read_groups(TomlTable& table, ClusterNode& node) {
  if (!table.has("groups")) return;
  node.groups = table.strings("groups", kGroupsMax);
  for (const std::string& group : node.groups) {
    if (!is_plain_name(group)) {
      table.fail("groups", fmt::format("'{}' cannot be a group's name", group), kNameHint);
    } else if (group == kAllNodes) {
      table.fail("groups", "every node is in group 'all'", "remove it");
    }
  }
}

// Adds "NAME=value" items, replacing variables of the same name.
void read_environment(TomlTable& table, std::map<std::string, std::string>& environment) {
  read_variables(table, "env", kOwnVariables, "NCCL_SOCKET_IFNAME=eth0", environment);
}

// Reads the names of GPUs for CUDA_VISIBLE_DEVICES: numbers, or UUIDs as nvidia-smi -L prints them.
void read_gpus(TomlTable& table, ClusterNode& node) {
  node.gpus = table.strings("gpus", kGpuEntriesMax);
  std::set<std::string_view> seen;
  for (const std::string& gpu : node.gpus) {
    if (!is_plain_name(gpu))
      table.fail("gpus", fmt::format("'{}' is not a GPU", gpu), "write gpus = [\"0\", \"1\"]");
    if (!seen.insert(gpu).second) table.fail("gpus", fmt::format("GPU {} is named twice", gpu));
  }
}

// Refuses a group that has the name of a node: --on could mean either.
void check_group_names(TomlTable& top, const ClusterSpec& cluster) {
  std::set<std::string_view> nodes;
  for (const ClusterNode& node : cluster.nodes) nodes.insert(node.spec.name);
  for (const ClusterNode& node : cluster.nodes) {
    for (const std::string& group : node.groups) {
      if (nodes.contains(group))
        top.fail("node", fmt::format("'{}' is the name of a node and of a group", group));
    }
    if (node.spec.name == kAllNodes)
      top.fail("node", "'all' is reserved for the group of all nodes");
  }
}

std::string read_launcher(TomlTable& table) {
  std::vector<std::string_view> names;
  for (const remote::LauncherKind& kind : remote::launcher_kinds()) names.push_back(kind.name);
  if (table.has("launcher") && !table.is_string("launcher")) return "command";
  std::string name = table.choice("launcher", names.front(), names);
  if (name == "command")
    table.fail("launcher", "a launcher command must be an array", kCommandHint);
  return name;
}

// Fills in the commands of `launcher = [program, argument ...]`, one for each node; ranges advance
// together. Returns the names of the nodes: the argument with the range, or else the last one.
std::vector<std::string> read_command(TomlTable& table,
                                      std::vector<std::vector<std::string>>& commands) {
  const auto patterns = table.strings("launcher", kArgumentsMax);
  if (patterns.empty() || patterns[0].empty()) {
    table.fail("launcher", "the launcher has no program", kCommandHint);
    return {};
  }
  std::vector<std::vector<std::string>> columns;
  std::size_t bytes = 0;  // size of one node's command
  std::vector<std::string> names = {patterns.back()};
  for (const std::string& pattern : patterns) {
    auto expanded = expand_range(pattern);
    if (!expanded) {
      table.fail("launcher", expanded.error().message, expanded.error().hint);
      return {};
    }
    if (names.size() > 1 && expanded->size() > 1 && names.size() != expanded->size()) {
      table.fail("launcher", fmt::format("the ranges have different sizes: {} and {} nodes",
                                         names.size(), expanded->size()));
      return {};
    }
    if (expanded->size() > 1) names = *expanded;
    bytes += expanded->back().size() + kElementBytes;
    if (bytes * names.size() > kNodesBytesMax) {
      table.fail("launcher", fmt::format("the commands of {} nodes are over {} bytes long",
                                         names.size(), kNodesBytesMax));
      return {};
    }
    columns.push_back(*std::move(expanded));
  }
  commands.resize(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (const auto& column : columns) commands[i].push_back(column[column.size() == 1 ? 0 : i]);
  }
  return names;
}

// Reads hosts: "node1", "me@node1:2222", "[2001:db8::1]:22".
std::vector<HostWord> read_hosts(TomlTable& table) {
  std::vector<HostWord> hosts;
  if (table.is_string("host") && table.string("host").empty())
    table.fail("host", "'host' is empty", "write the server's name or address");
  for (const std::string& word : expand(table, "host")) {
    HostWord host = split_host(word);
    std::uint32_t port = 22;
    const auto [end, error] =
        std::from_chars(host.number.data(), host.number.data() + host.number.size(), port);
    const bool is_port = error == std::errc() && end == host.number.data() + host.number.size() &&
                         port > 0 && port <= kPortMax;
    const auto good = remote::check_host_name(host.host);
    const auto user = host.user.empty() ? Status() : remote::check_user_name(host.user);
    if (host.has_number && !is_port) {
      table.fail("host", fmt::format("'{}' has no valid sshd port after the ':'", word),
                 "write host = \"node1\", \"node1:2222\" or \"[2001:db8::1]:22\"");
    } else if (!good || !user) {
      const Error& wrong = good ? user.error() : good.error();
      table.fail("host", wrong.message, wrong.hint);
    } else {
      hosts.push_back(std::move(host));
      continue;
    }
    return {};
  }
  return hosts;
}

// The names of the nodes that a [[node]] table describes: its hosts, the names in its launcher
// commands, or, for local nodes, its name (with a number from 0 on, if it has `count`).
std::vector<std::string> node_names(TomlTable& table, const remote::NodeSpec& node,
                                    std::vector<HostWord>& hosts,
                                    std::vector<std::vector<std::string>>& commands) {
  const std::string name = table.string("name");
  if (node.is_local()) {
    const auto count = table.integer("count", 1, 1, kLocalNodesMax);
    if (table.has("host"))
      table.fail("host", "a local node cannot have a host",
                 "remove `host`, or remove launcher = \"local\"");
    const std::string base = name.empty() ? "node" : name;
    if (!table.has("count") || !is_plain_name(base)) return {base};
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < count; ++i) names.push_back(fmt::format("{}-{}", base, i));
    return names;
  }
  if (table.has("count")) {
    table.fail("count", "`count` needs launcher = \"local\"",
               "write a range: host = \"node[01-16].lab\"");
  }
  const bool is_command = node.launcher == "command";
  std::vector<std::string> otherwise;
  if (is_command) {
    otherwise = read_command(table, commands);
  } else {
    hosts = read_hosts(table);
    for (const HostWord& host : hosts) otherwise.push_back(node_name_of(host.host));
  }
  if (is_command && table.has("host")) {
    table.fail("host", "a node with a launcher command cannot have a host",
               "put the host into the command");
  } else if (!is_command && hosts.empty() && !table.has("host")) {
    table.fail("host", "missing host",
               "write host = \"...\", or launcher = \"local\" for this machine");
  }
  if (name.empty()) return otherwise;
  const std::size_t wanted = otherwise.size();
  auto names = expand_list(name);
  if (!names) {
    table.fail("name", names.error().message, names.error().hint);
  } else if (names->size() == wanted) {
    return *std::move(names);
  } else if (wanted > 0) {
    table.fail("name", fmt::format("{} names for {} hosts", names->size(), wanted));
  }
  return otherwise;
}

// The memory that one node of a table takes, with its own copies of the table's lists.
std::size_t bytes_of(const ClusterNode& node) {
  std::size_t bytes = sizeof node;
  for (const auto* const list : {&node.groups, &node.gpus}) {
    for (const std::string& one : *list) bytes += one.size() + kElementBytes;
  }
  for (const auto& [name, value] : node.environment)
    bytes += name.size() + value.size() + 2 * kElementBytes;
  return bytes;
}

// Adds the nodes of a table: copies of `node`, each with its own name and its own host or command.
void add_nodes(TomlTable& table, const std::vector<std::string>& names,
               const std::vector<HostWord>& hosts,
               const std::vector<std::vector<std::string>>& commands, ClusterNode node,
               const std::string& workdir, NodesRead& all, ClusterSpec& cluster) {
  const char* const name_key = node.spec.is_local() || table.has("name") ? "name"
                               : commands.empty()                        ? "host"
                                                                         : "launcher";
  const std::vector<std::string> addresses = read_addresses(table);
  if (addresses.size() > 1 && addresses.size() != names.size()) {
    table.fail("address", fmt::format("{} addresses for {} nodes", addresses.size(), names.size()));
    return;
  }
  if (addresses.size() == 1 && names.size() > 1 && !node.spec.is_local()) {
    table.fail("address", fmt::format("one address for {} hosts", names.size()),
               "write a range: 10.1.0.[1-16]");
    return;
  }
  if (cluster.nodes.size() + names.size() > kClusterNodesMax) {
    table.fail("host", fmt::format("over {} nodes", kClusterNodesMax));
    return;
  }
  all.bytes += bytes_of(node) * names.size();
  if (all.bytes > kNodesBytesMax) {
    table.fail(name_key, "the groups and variables of all nodes are too much together",
               fmt::format("they may have {}, each node its own", human_bytes(kNodesBytesMax)));
    return;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    node.spec.name = names[i];
    if (!is_plain_name(node.spec.name)) {
      table.fail(name_key, fmt::format("'{}' cannot be a node's name", node.spec.name), kNameHint);
      return;
    }
    if (!commands.empty()) {
      node.spec.command = commands[i];
    } else if (!node.spec.is_local()) {
      node.spec.host = hosts[i].host;
    }
    ClusterNode own = node;
    if (!hosts.empty() && !hosts[i].user.empty()) own.spec.user = hosts[i].user;
    if (!hosts.empty() && hosts[i].has_number)
      own.spec.ssh_port = static_cast<std::uint16_t>(std::stoul(hosts[i].number));
    // Nodes may share a machine, or a home on a file server, so each gets its own folder.
    own.spec.root = fmt::format("{}/{}/{}", workdir, cluster.name, own.spec.name);
    own.address = addresses.empty() ? (own.spec.is_local() ? "127.0.0.1" : "")
                                    : addresses[addresses.size() == 1 ? 0 : i];
    own.spec.address = own.address;
    if (!all.names.insert(own.spec.name).second) {
      table.fail(name_key, fmt::format("two nodes have the name '{}'", own.spec.name),
                 "give each a `name` of its own: name = \"n[1-2]\"");
      return;
    }
    cluster.nodes.push_back(std::move(own));
  }
}

void read_node(TomlTable& table, const Defaults& defaults, NodesRead& all, ClusterSpec& cluster) {
  ClusterNode node;
  node.spec.launcher = read_launcher(table);
  std::vector<HostWord> hosts;
  std::vector<std::vector<std::string>> commands;
  const auto names = node_names(table, node.spec, hosts, commands);
  read_roles(table, node);
  read_groups(table, node);
  node.capacity = static_cast<std::uint32_t>(table.integer("capacity", 1, 1, kCapacityMax));
  node.environment = defaults.environment;
  read_environment(table, node.environment);
  read_gpus(table, node);
  node.port = static_cast<std::uint16_t>(table.integer("port", defaults.port, 1, kPortMax));
  if (node.port + cluster.block() > kPortMax)
    table.fail("port", "the ports of a pserver end above 65535");
  node.spec.push_port =
      node.spec.is_local() ? std::uint16_t{0} : static_cast<std::uint16_t>(node.port - 1);
  node.spec.ssh_port =
      static_cast<std::uint16_t>(table.integer("ssh_port", defaults.ssh_port, 0, kPortMax));
  node.spec.user = read_user(table, defaults.user);
  node.spec.identity = read_identity(table, defaults.identity, defaults.folder);
  node.spec.jump = read_text(table, "jump", defaults.jump);
  node.spec.known_hosts = read_path(table, "known_hosts", defaults.known_hosts, defaults.folder);
  node.spec.ssh_directory = defaults.directory;
  node.spec.host_key = read_host_key(table);
  const std::string workdir = read_workdir(table, defaults.workdir);
  add_nodes(table, names, hosts, commands, std::move(node), workdir, all, cluster);
}

void read_provider_table(TomlTable& top, const Defaults& defaults, ClusterSpec& cluster) {
  if (top.has("node")) {
    top.fail("node", "a cluster with [provider] names no [[node]]: the provider lists them",
             "remove the [[node]] tables, or [provider]");
  }
  TomlTable table = top.table("provider");
  cluster.provider = read_provider(table, {cluster.name, defaults.folder});
}

Result<ClusterSpec> read_tables(TomlTable top, const std::string& file) {
  ClusterSpec cluster;
  cluster.file = file;
  cluster.name = top.string("name", "cluster");
  if (!is_plain_name(cluster.name))
    top.fail("name", "a cluster's name is a folder on every node", kNameHint);
  Defaults defaults;
  defaults.workdir = read_workdir(top, "~/.paddlectl");
  defaults.names_workdir = top.has("workdir");
  defaults.port = static_cast<std::uint16_t>(top.integer("port", kDefaultPort, 1, kPortMax));
  cluster.ports_num =
      static_cast<std::uint16_t>(top.integer("ports_num", 1, 1, kPortsOfOnePserverMax));
  cluster.ports_num_for_sparse =
      static_cast<std::uint16_t>(top.integer("ports_num_for_sparse", 1, 0, kPortsOfOnePserverMax));
  cluster.transport = top.choice("transport", kTransports.front(), kTransports);
  cluster.nccl_clear = top.boolean("nccl_clear", false);
  read_environment(top, defaults.environment);
  std::error_code ignored;
  defaults.folder = std::filesystem::absolute(file, ignored).parent_path().string();
  TomlTable ssh = top.table("ssh");
  defaults.user = read_user(ssh, "");
  defaults.identity = read_identity(ssh, "", defaults.folder);
  defaults.jump = read_text(ssh, "jump", "");
  defaults.known_hosts = read_path(ssh, "known_hosts", "", defaults.folder);
  defaults.directory = read_path(ssh, "directory", "", defaults.folder);
  defaults.ssh_port = static_cast<std::uint16_t>(ssh.integer("port", 0, 0, kPortMax));
  NodesRead all;
  for (TomlTable& table : top.tables("node", kClusterNodesMax))
    read_node(table, defaults, all, cluster);
  check_group_names(top, cluster);
  if (top.has("provider")) {
    read_provider_table(top, defaults, cluster);
  } else if (!top.has("node")) {
    top.fail("node", "the file has no [[node]]",
             "name your servers: add\n  [[node]]\n  host = \"server-1\"");
  }
  PADDLE_TRY_STATUS(top.finish());
  cluster.defaults = std::make_shared<const Defaults>(std::move(defaults));
  return cluster;
}

std::string name_of_list(const ClusterSpec& cluster) {
  return "the nodes that [provider] of " + cluster.file + " lists";
}

// Reads the [[node]] tables of the nodes that run.
Status read_provided(ClusterSpec& cluster) {
  std::string text;
  for (const ProvidedNode& node : cluster.provided) {
    if (!node.table.empty()) text += "[[node]]\n" + node.table;
  }
  PADDLE_TRY(TomlTable top,
             TomlTable::parse(text, name_of_list(cluster), {}, "templates/providers/README.md"));
  NodesRead all;
  NodeDefaults defaults = *cluster.defaults;
  const std::string workdir = cluster.provider->workdir();
  if (!defaults.names_workdir && !workdir.empty()) defaults.workdir = workdir;
  for (TomlTable& table : top.tables("node", kClusterNodesMax))
    read_node(table, defaults, all, cluster);
  check_group_names(top, cluster);
  PADDLE_TRY_STATUS(top.finish());
  for (ClusterNode& node : cluster.nodes)
    node.spec.workdir_shared = cluster.provider->shares_workdir();
  return {};
}

}  // namespace

std::uint16_t first_port_of(const ClusterSpec& cluster) {
  return cluster.nodes.empty() ? cluster.defaults->port : cluster.nodes.front().port;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 200 && name.front() != '.' && name.front() != '-' &&
         std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '-' || c == '_';
         });
}

Result<ClusterSpec> read_cluster(const std::string& path) {
  std::error_code ignored;
  // A cluster file names programs to run and settings of ssh, so other users must not be able to
  // write it.
  PADDLE_TRY(const std::string text, remote::read_trusted_file(path, config::kConfigBytesMax));
  PADDLE_TRY(TomlTable top, TomlTable::parse(text, path, {}, "docs/cluster.md"));
  const auto file = std::filesystem::absolute(path, ignored).lexically_normal();
  return read_tables(std::move(top), file.string());
}

Status add_nodes(ClusterSpec& cluster) {
  if (!cluster.provider) return {};
  cluster.nodes.clear();
  PADDLE_TRY(cluster.provided, cluster.provider->list());
  PADDLE_TRY_STATUS(read_provided(cluster));
  if (!cluster.nodes.empty()) return {};
  std::string message = fmt::format("cluster '{}' has no nodes yet", cluster.name);
  if (const std::string waiting = nodes_not_running(cluster); !waiting.empty())
    message = fmt::format("no node of cluster '{}' runs: {}", cluster.name, waiting);
  if (const std::string ended = cluster.provider->cause_of_end(); !ended.empty())
    message = fmt::format("cluster '{}' has no nodes any more: {}", cluster.name, ended);
  return Error{Errc::kUsage, message, fmt::format("make them: paddlectl up {}", cluster.file)};
}

std::string nodes_not_running(const ClusterSpec& cluster) {
  std::vector<std::string> texts;
  for (const ProvidedNode& node : cluster.provided) {
    if (!node.runs()) texts.push_back(fmt::format("{} is {}", node.name, node.state));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::optional<ClusterCost> cost_of(const ClusterSpec& cluster, std::int64_t now_unix_s) {
  constexpr double kSecondsPerHour = 3600;
  ClusterCost cost;
  for (const ProvidedNode& node : cluster.provided) {
    if (node.hourly <= 0) continue;
    if (!cost.currency.empty() && node.currency != cost.currency) return std::nullopt;
    cost.currency = node.currency;
    cost.hourly += node.hourly;
    if (node.created_unix_s > 0 && node.created_unix_s < now_unix_s)
      cost.total += node.hourly * double(now_unix_s - node.created_unix_s) / kSecondsPerHour;
  }
  if (cost.currency.empty()) return std::nullopt;
  return cost;
}

std::string cost_text(const ClusterSpec& cluster, const ClusterCost& cost) {
  return fmt::format("the nodes of cluster '{}' cost {:.2f} {} so far, {:.2f} an hour",
                     cluster.name, cost.total, cost.currency, cost.hourly);
}

Result<ClusterSpec> parse_cluster(std::string_view text, const std::string& file) {
  PADDLE_TRY(TomlTable top, TomlTable::parse(text, file, {}, "docs/cluster.md"));
  return read_tables(std::move(top), file);
}

}  // namespace paddle::cli
