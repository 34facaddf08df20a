// Connections of a trainer to the pservers of a job over TCP. Together with parameter_client.h,
// this is all that a program needs to train against pservers (docs/client.md).
#pragma once

#include "engine/client/parameter_client.h"
#include "engine/net/tcp.h"
#include "proto/parameters.pb.h"

namespace paddle::client {

struct HostPort {
  std::string host;  // as it was given
  std::uint32_t port = 0;
};
// "host" or "host:port"; an IPv6 address with a port is "[::1]:7164". kUsage.
Result<HostPort> parse_host_port(const std::string& text, std::uint32_t default_port);

struct ConnectOptions {
  std::vector<std::string> pservers{"127.0.0.1"};  // "host" or "host:port", in pserver order
  std::uint32_t port = 7164;                       // first port of a pserver whose address has none
  std::uint32_t ports_num = 1;
  std::uint32_t ports_num_for_sparse = 1;
  std::uint32_t trainer_id = 0;
  std::uint32_t incarnation = 0;  // rises with every restart of this trainer
  std::string job_tag = {};
  std::string key_file = {};            // key of the job or of this process; needed beyond loopback
  std::string transport = "sealed";     // or "always", "clear": engine/net/transport.h
  std::uint32_t connect_timeout = 20;   // seconds, for all pservers together
  std::function<bool()> gives_up = {};  // see net::ClientOptions
};

struct ShardLinks {
  std::vector<std::unique_ptr<net::Link>> dense;  // by shard = pserver index * ports + port index
  std::vector<std::unique_ptr<net::Link>> sparse;
};
// The first port of each pserver. kUsage.
Result<std::vector<net::Endpoint>> pserver_endpoints(const ConnectOptions& options);
// Errors name the pserver that cannot be reached.
Result<ShardLinks> connect_links(const ConnectOptions& options);

// Connects to all pservers and joins the job. Sets the numbers of shards in `parameters`, whose
// other fields must be the same on all trainers, with strategies sync or async.
Result<std::unique_ptr<ParameterClient>> connect(const ConnectOptions& options,
                                                 wire::ParameterSet parameters);

}  // namespace paddle::client
