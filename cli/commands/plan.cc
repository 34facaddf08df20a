#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/commands.h"
#include "cli/current_cluster.h"
#include "cli/engine_program.h"
#include "cli/job_plan.h"
#include "cli/workspace.h"

namespace paddle::cli {

Status run_plan(Context& context, const CommandOptions& options) {
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  PADDLE_TRY(const Placement placement, place_job(cluster, options.trainers, options.pservers));
  const std::string path =
      (std::filesystem::path(context.directory) / options.workspace).lexically_normal().string();
  PADDLE_TRY_STATUS(check_workspace(path));
  std::map<std::string, std::size_t> on_address;
  std::vector<std::string> pservers;
  std::vector<std::string> names;
  for (const std::size_t at : placement.pservers) {
    const ClusterNode& node = cluster.nodes[at];
    // Nothing is asked of the nodes: where the file has no address, the name stands for it.
    const std::string host = node.address.empty() ? node.spec.name : node.address;
    PADDLE_TRY(const std::uint16_t port, block_port(cluster, node, on_address[host]++));
    pservers.push_back(host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                                           : fmt::format("[{}]:{}", host, port));
    names.push_back(node.spec.name);
  }
  std::vector<std::string> arguments{
      "plan",
      "--config=" + path + "/job.toml",
      fmt::format("--num_gradient_servers={}", placement.trainers.size()),
      fmt::format("--pservers={}", fmt::join(pservers, ",")),
      fmt::format("--pserver_names={}", fmt::join(names, ",")),
      fmt::format("--ports_num={}", cluster.ports_num),
      fmt::format("--ports_num_for_sparse={}", cluster.ports_num_for_sparse)};
  for (const std::string& item : options.overrides) arguments.push_back("--set=" + item);
  if (context.console.json()) arguments.emplace_back("--json");
  PADDLE_TRY(const std::string text, run_engine(context.engine, std::move(arguments)));
  context.console.raw(text);
  return {};
}

}  // namespace paddle::cli
