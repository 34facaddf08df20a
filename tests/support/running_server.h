// An HTTP server on a thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "engine/http/http_server.h"

namespace paddle::test {

class RunningServer {
 public:
  RunningServer() = default;
  ~RunningServer() { stop(); }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;

  // The service must outlive the server.
  void start(const http::HttpOptions& options, http::Service& service) {
    auto server = http::HttpServer::listen(options, service);
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
    thread_ = std::thread([this] { server_->run(); });
  }
  void stop() {
    if (!server_) return;
    server_->stop();
    thread_.join();
    server_.reset();
  }
  std::uint16_t port() const { return server_->port(); }

 private:
  std::shared_ptr<http::HttpServer> server_;
  std::thread thread_;
};

}  // namespace paddle::test
