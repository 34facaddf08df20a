// `paddlectl dashboard`: a page in the browser that shows the cluster's jobs while they run.
#include <unistd.h>

#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "cli/cluster/journal.h"
#include "cli/cluster/selection.h"
#include "cli/commands/shared_options.h"
#include "cli/dashboard/dashboard_service.h"
#include "cli/dashboard/dashboard_token.h"
#include "cli/dashboard/live_cluster.h"
#include "cli/report/report.h"

namespace paddle::cli {
namespace {

constexpr std::uint16_t kUsualPort = 8642;
constexpr std::uint32_t kPortMax = 65535;
constexpr Duration kLongPause = std::chrono::hours(1);  // a signal ends it

struct DashboardCommand {
  std::string cluster;
  std::optional<std::uint32_t> port;
  std::string token_file;
  bool allow_changes = false;
};

OptionList list_options(DashboardCommand& options) {
  return {
      cluster_option(options.cluster),
      {.name = "--port",
       .help = "port of 127.0.0.1; default: 8642, or a free one if that is taken",
       .target = &options.port,
       .min = 1,
       .max = kPortMax},
      {"--token-file",
       "file with the secret in the address; made if missing; default: in ~/.local/state",
       &options.token_file, "FILE"},
      {"--allow-changes", "the page may stop jobs and restart processes", &options.allow_changes}};
}

Result<std::string> choose_token(Context& context, const std::string& file) {
  if (!file.empty()) return token_of((std::filesystem::path(context.directory) / file).string());
  const std::string folder = journal_folder();
  if (!folder.empty()) return token_of(folder + "/dashboard-token");
  context.console.note("without a home folder, the next dashboard has another address");
  return new_token();
}

// Listens on the chosen port, or else on the usual one or any that is free.
Result<std::shared_ptr<http::HttpServer>> listen(Context& context, http::Service& service,
                                                 std::optional<std::uint32_t> port) {
  const auto on = [&](std::uint32_t number) {
    return http::HttpServer::listen(dashboard_server(static_cast<std::uint16_t>(number)), service);
  };
  auto server = on(port.value_or(kUsualPort));
  if (server) return server;
  if (port) {
    Error error = std::move(server).error();
    error.hint = "without --port, another one is taken";
    return error;
  }
  server = on(0);
  if (server) {
    context.console.note(fmt::format("port {} is taken: the address has another one", kUsualPort));
  }
  return server;
}

Status run_dashboard(Context& context, const DashboardCommand& options) {
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  DashboardOptions service_options;
  service_options.allow_changes = options.allow_changes;
  PADDLE_TRY(service_options.token, choose_token(context, options.token_file));
  PADDLE_TRY(service_options.page,
             live_page(Json::object({{"live", true},
                                     {"cluster", cluster.name},
                                     {"allow_changes", options.allow_changes}}),
                       context.share));
  const std::string token = service_options.token;
  LiveCluster live(context, cluster);
  DashboardService service(live, std::move(service_options));
  PADDLE_TRY(const auto server, listen(context, service, options.port));
  const std::string url = fmt::format("http://127.0.0.1:{}/{}/", server->port(), token);
  std::thread thread([&server] { server->run(); });
  context.console.note(
      fmt::format("cluster '{}' for a browser on this machine; Ctrl-C ends it", cluster.name));
  context.console.result(Json::object({{"url", url}, {"pid", ::getpid()}}), url);
  if (context.note_interrupts) context.note_interrupts(false);
  while (!context.interrupted()) context.pause(kLongPause);
  server->stop();
  thread.join();
  return {};
}

}  // namespace

Command dashboard_command() {
  return {"dashboard", "show the cluster's jobs in the browser while they run",
          "  paddlectl dashboard\n"
          "  paddlectl dashboard --allow-changes --port 9000\n"
          "  ssh -L 8642:127.0.0.1:8642 HOST   # then open the address printed on HOST",
          [] { return invocation(list_options, run_dashboard); }};
}

}  // namespace paddle::cli
