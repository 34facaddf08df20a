// `paddle serve`: predictions and rows of a snapshot over HTTP.
#include <pthread.h>

#include <csignal>
#include <iostream>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "base/control_group.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/text_file.h"
#include "engine/commands/command.h"
#include "engine/commands/model_flags.h"
#include "engine/http/http_server.h"
#include "engine/math/allocator.h"
#include "engine/model/service.h"
#include "engine/net/identity.h"

namespace paddle::commands {
namespace {

constexpr std::size_t kTokenBytesMin = 16, kTokenBytesMax = 4096;

struct ServeFlags {
  std::string snapshot;
  std::string bind = "127.0.0.1";
  std::uint32_t port = 8500;
  std::string token_file;
  std::string layer;
  std::uint32_t threads = 0;
  std::uint32_t queue = 128;
  std::uint32_t connections = 1000;
  std::uint32_t body_bytes = 8U << 20U;
  std::uint32_t client_seconds = 30;
  std::uint32_t poll_milliseconds = 1000;
  bool newest = false;
  inference::DescriptionSource source;
};

Result<Bytes> read_token(const std::string& path) {
  PADDLE_TRY(Bytes token, read_secret_file(path, kTokenBytesMax));
  while (!token.empty() && (token.back() == std::byte{'\n'} || token.back() == std::byte{'\r'}))
    token.pop_back();
  const std::size_t mark = token.size() - without_byte_order_mark(as_text(token)).size();
  token.erase(token.begin(), token.begin() + static_cast<std::ptrdiff_t>(mark));
  if (token.size() >= kTokenBytesMin) return token;
  return Error{Errc::kUsage,
               fmt::format("the token in {} has fewer than {} bytes", path, kTokenBytesMin),
               fmt::format("(umask 077; openssl rand -hex 32 >{})", path)};
}

// The address to listen on. An address beyond loopback needs a token.
Result<std::string> address_of(const ServeFlags& flags) {
  auto address = net::interface_address(flags.bind);
  if (!address || !flags.token_file.empty()) return address;
  if (address->starts_with("127.") || *address == "::1") return address;
  return Error{Errc::kUsage, fmt::format("--bind={} is open to other machines", flags.bind),
               "--token_file=FILE names a file with the token that their requests must send"};
}

Status run_serve(const ServeFlags& flags) {
  end_when_out_of_memory("serve", kMemoryAdvice);
  return_large_buffers();
  if (!flags.token_file.empty()) turn_off_cores();
  // Before any thread starts, so that only sigwait() receives them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (flags.snapshot.empty())
    return Error{Errc::kUsage, "--snapshot is missing", "paddle serve --snapshot=output"};
  PADDLE_TRY(const std::string address, address_of(flags));
  serve::ServiceOptions service_options{.queue_max = flags.queue};
  service_options.threads = flags.threads > 0 ? flags.threads : usable_cores();
  if (!flags.token_file.empty()) {
    PADDLE_TRY(service_options.token, read_token(flags.token_file));
  }
  serve::Counters counters;
  serve::ModelOptions model_options{.layer = flags.layer, .source = flags.source};
  // The records come from clients: the pipe command is never run.
  model_options.source.allows_pipe_command = true;
  PADDLE_TRY(
      const auto model,
      serve::NewestModel::open(
          flags.snapshot,
          flags.newest ? serve::NewestModel::Choice::kNewest : serve::NewestModel::Choice::kBest,
          model_options, counters, std::chrono::milliseconds(flags.poll_milliseconds)));
  serve::Service service(*model, counters, std::move(service_options));
  http::HttpOptions options{.address = address, .port = static_cast<std::uint16_t>(flags.port)};
  options.connections_max = flags.connections;
  options.body_bytes_max = flags.body_bytes;
  options.body_hint = "send fewer records at a time, or see --body_bytes";
  options.body_time = options.reply_time = std::chrono::seconds(flags.client_seconds);
  options.head_time = std::min(options.head_time, options.body_time);
  PADDLE_TRY(const auto server, http::HttpServer::listen(options, service));
  std::cout << fmt::format("serving {} on http://{}:{}\n", model->get()->name(),
                           address.find(':') == std::string::npos ? address : "[" + address + "]",
                           server->port())
            << std::flush;
  std::thread thread([&server] { server->run(); });
  int signal = 0;
  ::sigwait(&signals, &signal);
  log_info("signal {}: new requests are refused", signal);
  server->stop();
  thread.join();
  return {};
}

std::function<Status()> declare_serve(FlagSet& flags) {
  const auto options = std::make_shared<ServeFlags>();
  ServeFlags& to = *options;
  flags.text("snapshot",
             "a pass-0000N folder, or the folder of several: then the best one is served where "
             "training named one (train.best), else the newest",
             to.snapshot);
  flags.boolean("newest", "serve the newest snapshot, also where training named a best one",
                to.newest);
  flags.number("port", "port to listen on; 0: any free port", to.port, 0, kPortMax);
  flags.text("bind", "address or interface to listen on; beyond loopback with --token_file",
             to.bind);
  flags.text("token_file", "file, of mode 0600, with the token that requests must send",
             to.token_file);
  flags.text("layer", "predict the outputs of this layer instead of scores", to.layer);
  flags.number("threads", "threads that score records; 0: one for each core", to.threads, 0, 1024);
  flags.number("queue", "requests that may wait for a thread; more are answered with 503", to.queue,
               1, kCountMax);
  flags.number("connections",
               "largest number of connections; above it, an idle or slow one of the address with "
               "the most connections is closed",
               to.connections, 1, kCountMax);
  flags.number("body_bytes", "largest body of a request, in bytes", to.body_bytes, 1, 1U << 30U);
  flags.number("client_seconds",
               "seconds that a client has to send a request, and again to take the answer",
               to.client_seconds, 1, kCountMax);
  flags.number("poll_milliseconds", "milliseconds between two checks for a newer snapshot",
               to.poll_milliseconds, 1, kCountMax);
  declare_description(flags, to.source);
  return [options] { return run_serve(*options); };
}

}  // namespace

const Command kServeCommand{"serve", "answer requests for predictions over HTTP",
                            R"(usage: paddle serve --snapshot=DIR [flags]

POST /v1/predict  scores of records: JSON objects or an array of them, or with
                  another Content-Type lines in the format of the job
POST /v1/rows     rows of a table: {"parameter":"_proj","ids":[3,7]}
GET  /v1/model    the snapshot and the slots of a record; /healthz; /metrics

examples:
  paddle serve --snapshot=output --port=8500
  curl --data-binary @new.txt http://127.0.0.1:8500/v1/predict
  curl --json '{"age":40,"city":"Bern"}' http://127.0.0.1:8500/v1/predict
)",
                            declare_serve};

}  // namespace paddle::commands
