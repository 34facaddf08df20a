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

struct Served {
  std::unique_ptr<DashboardService> service;
  std::shared_ptr<http::HttpServer> server;
};

Result<Served> serve(LiveCluster& live, const DashboardOptions& options, std::uint32_t port) {
  Served served;
  served.service = std::make_unique<DashboardService>(live, options);
  PADDLE_TRY(served.server,
             http::HttpServer::listen(dashboard_server(static_cast<std::uint16_t>(port)),
                                      *served.service));
  return served;
}

// Listens on the chosen port, or else on the usual one or any that is free. On that one the token
// is a new one: pages go on asking at a port that another user may take after this dashboard, and
// the kept token must stay secret.
Result<Served> serve(Context& context, LiveCluster& live, DashboardOptions& options,
                     std::optional<std::uint32_t> port) {
  auto served = serve(live, options, port.value_or(kUsualPort));
  if (served) return served;
  if (port) {
    Error error = std::move(served).error();
    error.hint = "without --port, another one is taken";
    return error;
  }
  PADDLE_TRY(options.token, new_token());
  served = serve(live, options, 0);
  if (served) {
    context.console.note(
        fmt::format("port {} is taken: this address ends with the dashboard", kUsualPort));
  }
  return served;
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
  LiveCluster live(context, cluster);
  PADDLE_TRY(const Served served, serve(context, live, service_options, options.port));
  http::HttpServer& server = *served.server;
  const std::string url =
      fmt::format("http://127.0.0.1:{}/{}/", server.port(), service_options.token);
  std::thread thread([&server] { server.run(); });
  context.console.note(
      fmt::format("cluster '{}' for a browser on this machine; Ctrl-C ends it", cluster.name));
  context.console.result(Json::object({{"url", url}, {"pid", ::getpid()}}), url);
  if (context.note_interrupts) context.note_interrupts(false);
  while (!context.interrupted()) context.pause(kLongPause);
  server.stop();
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
