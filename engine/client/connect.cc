#include "engine/client/connect.h"

#include <charconv>

#include <fmt/format.h>

#include "engine/client/shard_client.h"
#include "engine/net/identity.h"
#include "engine/net/tcp.h"

namespace paddle::client {
namespace {

constexpr std::uint32_t kPortMax = 65535;

}  // namespace

Result<HostPort> parse_host_port(const std::string& text, std::uint32_t default_port) {
  HostPort result{text, default_port};
  const std::size_t colon = text.rfind(':');
  const bool has_port = colon != std::string::npos &&
                        (text.find(':') == colon || (colon > 0 && text[colon - 1] == ']'));
  if (has_port) {
    result.host = text.substr(0, colon);
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + colon + 1, end, result.port);
    if (error != std::errc() || at != end) result.port = 0;
  }
  std::string& host = result.host;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (result.port == 0 || result.port > kPortMax || host.empty()) {
    return Error{Errc::kUsage, fmt::format("'{}' in --pservers is not host[:port]", text)};
  }
  return result;
}

Result<std::vector<net::Endpoint>> pserver_endpoints(const ConnectOptions& options) {
  const std::uint32_t ports = options.ports_num + options.ports_num_for_sparse;
  std::vector<net::Endpoint> endpoints;
  for (const std::string& text : options.pservers) {
    PADDLE_TRY(const HostPort written, parse_host_port(text, options.port));
    PADDLE_TRY(std::string address, net::resolve_address(written.host));
    if (written.port + ports > kPortMax + 1) {
      return Error{Errc::kUsage,
                   fmt::format("{} ports starting at {} exceed the largest port, 65535", ports,
                               written.port)};
    }
    endpoints.push_back({std::move(address), static_cast<std::uint16_t>(written.port)});
  }
  return endpoints;
}

Result<ShardLinks> connect_links(const ConnectOptions& options) {
  const std::uint32_t ports = options.ports_num + options.ports_num_for_sparse;
  PADDLE_TRY(const std::vector<net::Endpoint> endpoints, pserver_endpoints(options));
  std::vector<std::string> addresses;
  for (const net::Endpoint& endpoint : endpoints) addresses.push_back(endpoint.address);
  PADDLE_TRY(const JobKeys keys, net::job_keys(options.key_file, addresses));
  PADDLE_TRY(const net::Transport transport, net::parse_transport(options.transport));
  const TimePoint deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(options.connect_timeout);
  ShardLinks links;
  for (std::size_t server = 0; server < endpoints.size(); ++server) {
    for (std::uint32_t i = 0; i < ports; ++i) {
      net::ClientOptions client{
          .endpoint = {endpoints[server].address,
                       static_cast<std::uint16_t>(endpoints[server].port + i)},
          .keys = keys,
          .self = {Role::kTrainer, options.trainer_id},
          .incarnation = options.incarnation,
          .server = {Role::kPserver, static_cast<std::uint32_t>(server)},
          .job_tag = net::job_tag_of(options.job_tag),
          .transport = transport,
          .gives_up = options.gives_up};
      auto link = net::connect(std::move(client), deadline);
      if (!link) return std::move(link).error().with(fmt::format("pserver {}", server));
      (i < options.ports_num ? links.dense : links.sparse).push_back(*std::move(link));
    }
  }
  return links;
}

Result<std::unique_ptr<ParameterClient>> connect(const ConnectOptions& options,
                                                 wire::ParameterSet parameters) {
  const auto servers = static_cast<std::uint32_t>(options.pservers.size());
  parameters.set_dense_shards(servers * options.ports_num);
  parameters.set_sparse_shards(servers * options.ports_num_for_sparse);
  PADDLE_TRY(ShardLinks links, connect_links(options));
  PADDLE_TRY(auto shards,
             ShardChannels::join({.parameters = std::move(parameters),
                                  .lane = {.trainer_id = options.trainer_id,
                                           .incarnation = options.incarnation,
                                           .job_tag = net::job_tag_of(options.job_tag)}},
                                 std::move(links.dense), std::move(links.sparse)));
  return std::unique_ptr<ParameterClient>(std::make_unique<ShardClient>(std::move(shards)));
}

}  // namespace paddle::client
