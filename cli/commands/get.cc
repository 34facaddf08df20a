#include <filesystem>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/current_cluster.h"
#include "cli/cluster/fetch_target.h"
#include "cli/cluster/node_selection.h"
#include "cli/nodes/copy.h"
#include "cli/options/shared_options.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

struct GetOptions {
  std::string cluster, on;
  std::vector<std::string> paths;
};

OptionList list_options(GetOptions& options) {
  return {cluster_option(options.cluster),
          on_option(options.on),
          {"paths", "the path on the nodes, absolute or from $HOME, then the folder here",
           &options.paths}};
}

Status fetch_staged(Member& member, const std::string& staging, const fs::path& local,
                    CopyCounts& report) {
  PADDLE_TRY(const auto entries, member.client->list(staging));
  std::vector<remote::FetchItem> wanted;
  for (const remote::FileEntry& entry : entries) {
    PADDLE_TRY(const std::string target, fetch_target(local, entry.path, "choose another folder"));
    wanted.push_back({staging + "/" + entry.path, target});
    report.bytes += entry.size;
  }
  report.files = wanted.size();
  return member.client->fetch(wanted);
}

Status run(Context& context, const GetOptions& options) {
  if (options.paths.size() != 2) {
    return Error{Errc::kUsage, "give the path on the nodes and the folder here",
                 "paddlectl get /var/log/syslog logs"};
  }
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  PADDLE_TRY(const std::vector<std::size_t> nodes, select_nodes(cluster, options.on));
  const std::string staging = staging_folder(context);
  const fs::path local = fs::path(context.directory) / options.paths[1];
  ClusterSession session = ClusterSession::unconnected(cluster, nodes);
  return copy_on_each(context, session, [&](Member& member, CopyCounts& report) -> Status {
    const auto taken = member.client->import_from(options.paths[0], staging);
    Status fetched;
    if (taken) {
      fetched = fetch_staged(member, staging, local / member.spec.name, report);
    }
    const Status removed = member.client->remove(staging);
    if (!taken) return taken.error();
    report.bytes_moved = report.bytes;
    report.gone = taken->gone;
    return fetched ? removed : fetched;
  });
}

}  // namespace

Command get_command() {
  return {"get", "copy a file or folder from nodes, into one folder per node",
          "  paddlectl get /var/log/syslog logs\n"
          "  paddlectl get --on node[01-04] '~/results' results",
          [] { return invocation(list_options, run); }};
}

}  // namespace paddle::cli
