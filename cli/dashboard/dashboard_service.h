// The paths of `paddlectl dashboard`: its page, server-sent events, logs, metrics, and the changes
// that it may make. docs/dashboard.md has their table.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/result.h"
#include "cli/dashboard/live.h"
#include "engine/http/http_server.h"
#include "engine/http/service.h"

namespace paddle::cli {

struct DashboardOptions {
  std::string token;  // the first part of every path
  std::string page;   // of HTML; its policy is also sent as a header field
  bool allow_changes = false;
  std::chrono::milliseconds alive_period{15'000};  // the longest pause of a stream of events
};

// The options of the server that a DashboardService needs: it listens on this machine only.
http::HttpOptions dashboard_server(std::uint16_t port);

class DashboardService final : public http::Service {
 public:
  // `live` must outlive the service.
  DashboardService(Live& live, DashboardOptions options);
  ~DashboardService() override;

  // Only requests for a name of this machine, so that no foreign page can send one under a name of
  // its own (DNS rebinding); then only paths that begin with the token. All others have one answer.
  std::optional<http::Reply> refuse(const http::Request& head) const override;
  void answer(http::Request request, std::function<void(http::Reply)> done) override;
  http::ConnectionCounts& connections() override { return counts_; }

 private:
  struct Route;
  struct Viewers;
  class Viewer;

  const Route* route_of(const http::Request& head) const;
  std::optional<http::Reply> refuse_change(const http::Request& head) const;
  http::Reply events(const http::Request& request, const std::string& job,
                     std::string_view seen) const;
  void log(const http::Fields& values, const std::string& job,
           std::function<void(http::Reply)> done) const;
  void keep_alive();

  Live& live_;
  const DashboardOptions options_;
  const std::string policy_;  // of the page
  std::string instance_;      // of the versions that the ids of events name
  http::ConnectionCounts counts_;
  const std::shared_ptr<Viewers> viewers_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool is_over_ = false;
  std::thread clock_;
};

}  // namespace paddle::cli
