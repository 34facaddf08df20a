#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include <fmt/ranges.h>

#include "base/pool.h"
#include "cli/cluster/node_list.h"
#include "cli/cluster/selection.h"
#include "cli/commands/shared_options.h"

namespace paddle::cli {
namespace {

constexpr int kQuestionsMax = 5;  // repeated until the answer is yes or no

struct TrustOptions {
  std::string cluster, on;
  std::string host;
  std::vector<std::string> fingerprints;
  bool yes = false;
};

OptionList list_options(TrustOptions& options) {
  return {
      cluster_option(options.cluster),
      on_option(options.on),
      {"host", "a host as ssh knows it, or a node of the cluster; default: every node",
       &options.host, "HOST"},
      {"--fingerprint", "trust only a key with this fingerprint (repeatable)",
       &options.fingerprints, "FINGERPRINT"},
      {"--yes", "trust every key shown; only on a network you trust", &options.yes},
  };
}

struct Asked {
  remote::NodeSpec node;
  std::optional<Result<remote::ShownHostKey>> shown;
  bool added = false;

  bool is_new() const { return *shown && !(*shown)->known; }
};

bool same_way(const remote::NodeSpec& a, const remote::NodeSpec& b) {
  return a.host == b.host && a.ssh_port == b.ssh_port && a.jump == b.jump &&
         a.known_hosts == b.known_hosts && a.ssh_directory == b.ssh_directory;
}

// Stage n holds the hosts behind n bastions: a host's key can be asked for only once its bastions
// are trusted.
Result<std::vector<std::vector<Asked>>> stages_of(const std::vector<remote::NodeSpec>& nodes) {
  std::vector<std::vector<Asked>> stages;
  for (const remote::NodeSpec& node : nodes) {
    if (node.host.empty()) continue;  // not reached by SSH
    PADDLE_TRY(const auto path, remote::path_to(node));
    if (stages.size() < path.size()) stages.resize(path.size());
    for (std::size_t i = 0; i < path.size(); ++i) {
      if (std::ranges::none_of(stages[i], [&](auto& a) { return same_way(a.node, path[i]); }))
        stages[i].push_back({path[i], {}});
    }
  }
  return stages;
}

// The nodes to trust: the host on the command line (with the cluster's settings if it is a node),
// or the nodes of --on.
Result<std::vector<remote::NodeSpec>> nodes_asked_for(Context& context,
                                                      const TrustOptions& options) {
  auto cluster = choose_cluster(context.directory, options.cluster);
  std::vector<remote::NodeSpec> nodes;
  if (!options.host.empty()) {
    if (!options.on.empty())
      return Error{Errc::kUsage, "a host and --on cannot be used together",
                   "name the host, or nodes of a cluster"};
    const HostWord word = split_host(options.host);
    for (const ClusterNode& node : cluster ? cluster->nodes : std::vector<ClusterNode>()) {
      const bool is_host = node.spec.host == word.host && word.may_have_port(node.spec.ssh_port);
      if (node.spec.name == options.host || is_host) nodes.push_back(node.spec);
    }
    if (nodes.empty() && !cluster && !options.cluster.empty()) return std::move(cluster).error();
    if (!nodes.empty()) return nodes;
    remote::NodeSpec node;
    node.name = node.host = word.host;
    node.user = word.user;
    std::uint16_t port = 0;
    const auto [end, error] =
        std::from_chars(word.number.data(), word.number.data() + word.number.size(), port);
    if (word.has_number && (error != std::errc() || *end != '\0' || port == 0))
      return Error{Errc::kUsage, fmt::format("'{}' has no valid port after the ':'", options.host),
                   "write HOST, HOST:PORT or [ADDRESS]:PORT"};
    node.ssh_port = port;
    return std::vector<remote::NodeSpec>{node};
  }
  if (!cluster) return std::move(cluster).error();
  PADDLE_TRY(const auto chosen, select_nodes(*cluster, options.on));
  for (const std::size_t i : chosen) nodes.push_back(cluster->nodes[i].spec);
  return nodes;
}

// Whether a fingerprint names the key; "SHA256:..." also names "ssh-ed25519 SHA256:...".
bool is_named(const remote::ShownHostKey& key, const std::vector<std::string>& fingerprints) {
  return std::ranges::any_of(fingerprints, [&](const std::string& fingerprint) {
    return key.fingerprint == fingerprint || key.fingerprint.ends_with(" " + fingerprint);
  });
}

// The answer without blanks around it, in lower case unless it is long enough to be a fingerprint.
std::string trimmed(std::string_view answer) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = std::min(answer.find_first_not_of(kBlanks), answer.size());
  const std::size_t end = answer.find_last_not_of(kBlanks) + 1;
  std::string word(answer.substr(begin, std::max(end, begin) - begin));
  constexpr std::size_t kLongestWord = 3;
  if (word.size() > kLongestWord) return word;
  for (char& c : word) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return word;
}

// Shows "SHA256:..." from "ssh-ed25519 SHA256:..."; JSON has the whole text.
Cell fingerprint_cell(const std::string& fingerprint) {
  return {fingerprint.substr(fingerprint.find(' ') + 1), Json(fingerprint)};
}

// Shows the unknown keys, and asks the user unless an option gives the answer. kAuth: they may not
// be added.
Status confirm(Context& context, const TrustOptions& options,
               const std::vector<const Asked*>& unknown) {
  std::set<std::string> files;
  for (const Asked* asked : unknown) {
    const remote::ShownHostKey& key = **asked->shown;
    context.console.note(fmt::format("{} ({}{}{}) shows {}", asked->node.name, key.label,
                                     key.alias.empty() ? "" : ", known as ", key.alias,
                                     key.fingerprint));
    files.insert(key.known_hosts);
    if (!options.fingerprints.empty() && !is_named(key, options.fingerprints)) {
      return Error{Errc::kAuth,
                   fmt::format("{} shows {}, which is not the fingerprint given", key.label,
                               key.fingerprint),
                   "no key was trusted; ask the administrator of the machine"};
    }
  }
  context.console.note(fmt::format("to be written to {}", fmt::join(files, ", ")));
  if (options.yes || !options.fingerprints.empty()) return {};
  constexpr const char* kHint =
      "compare them with the keys on the machines (ssh-keygen -lf "
      "/etc/ssh/ssh_host_ed25519_key.pub), then give --fingerprint SHA256:..., or --yes for all of "
      "them";
  // Asks as ssh does: until the answer is yes, no, or the fingerprint of every key shown.
  std::string question =
      fmt::format("trust {}? Type yes or no: ", counted(unknown.size(), "new host key"));
  for (int i = 0; i < kQuestionsMax; ++i) {
    const auto answer = context.ask ? context.ask(question, false) : std::nullopt;
    if (!answer) return Error{Errc::kAuth, "cannot ask: this is not a terminal", kHint};
    const std::string word = trimmed(*answer);
    const bool names_all = std::ranges::all_of(
        unknown, [&](const Asked* asked) { return is_named(**asked->shown, {word}); });
    if (word == "yes" || names_all) return {};
    if (word == "no") break;
    question = "Type yes in full, no, or the fingerprint: ";
  }
  return Error{Errc::kAuth, "no key was added: type yes in full to accept", kHint};
}

Status trust_stage(Context& context, const TrustOptions& options, std::vector<Asked>& stage) {
  const auto ask = [&](std::size_t i) {
    stage[i].node.timeout = context.limits.timeout;
    stage[i].node.allow_proxy_command = context.limits.allow_proxy_command;
    stage[i].shown.emplace(context.host_key(stage[i].node));
  };
  for_each_parallel(stage.size(), ask, context.limits.at_once);
  std::vector<const Asked*> unknown;
  for (const Asked& asked : stage) {
    if (asked.is_new()) unknown.push_back(&asked);
  }
  if (unknown.empty()) return {};
  PADDLE_TRY_STATUS(confirm(context, options, unknown));
  for (Asked& asked : stage) {
    if (!asked.is_new()) continue;
    PADDLE_TRY_STATUS(remote::add_host_key(**asked.shown));
    asked.added = true;
  }
  return {};
}

Status run_trust(Context& context, const TrustOptions& options) {
  PADDLE_TRY(const auto nodes, nodes_asked_for(context, options));
  PADDLE_TRY(auto stages, stages_of(nodes));
  Table table{{{"node", "node", 0, false, true},
               {"address", "address", 1},
               {"type", "", 2},
               {"host key", "host_key"},
               {"state", "state"}},
              {}};
  std::optional<Error> first;
  for (auto& stage : stages) {
    if (const Status done = trust_stage(context, options, stage); !done) return done.error();
    for (const Asked& asked : stage) {
      if (!*asked.shown) {
        if (!first) {
          first = asked.shown->error();
        } else {
          first->message += "\n" + asked.shown->error().message;
        }
        table.rows.push_back({text_cell(asked.node.name), text_cell(asked.node.host), empty_cell(),
                              empty_cell(), text_cell("FAILED")});
        continue;
      }
      const remote::ShownHostKey& key = **asked.shown;
      table.rows.push_back({text_cell(asked.node.name), text_cell(key.label),
                            text_cell(key.fingerprint.substr(0, key.fingerprint.find(' '))),
                            fingerprint_cell(key.fingerprint),
                            text_cell(asked.added ? "added" : "known")});
    }
  }
  context.console.table(table);
  if (first) return *std::move(first);
  return {};
}

}  // namespace

Command trust_command() {
  return {"trust", "show the unknown host keys of nodes and, once confirmed, accept them",
          "  paddlectl trust --cluster lab.toml\n"
          "  paddlectl trust gpu-1.lab --fingerprint SHA256:uNiVztksCsDhcc0u9e8BrQXv...\n"
          "  paddlectl trust --on rack1 --yes",
          [] { return invocation(list_options, run_trust); }};
}

}  // namespace paddle::cli
