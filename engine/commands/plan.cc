// `paddle plan`: prints which port would hold which parameters, and starts nothing.
#include <algorithm>
#include <array>
#include <iostream>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "engine/client/connect.h"
#include "engine/commands/command.h"
#include "engine/commands/train.h"
#include "engine/config/data_config.h"
#include "engine/math/optimizer.h"
#include "engine/nn/network.h"
#include "engine/table/parameter_set.h"
#include "engine/table/partition.h"
#include "engine/trainer/connection.h"
#include "engine/trainer/early_stop.h"

namespace paddle::commands {
namespace {

struct PlanOptions {
  TrainFlags train;
  std::vector<std::string> names;  // of the pservers' nodes; empty: their hosts
  bool json = false;
};

struct PlannedPort {
  std::string endpoint;  // "host:port"
  std::string node;
  std::string text() const { return endpoint.starts_with(node) ? endpoint : node + " " + endpoint; }
};

struct Plan {
  wire::ParameterSet set;
  std::vector<parameter::DenseBlock> blocks;
  std::vector<PlannedPort> dense_ports;  // by shard
  std::vector<PlannedPort> sparse_ports;
  std::uint64_t element_bytes = 0;  // value and optimizer state

  const wire::ParameterSpec& spec(const parameter::DenseBlock& block) const {
    return set.parameters(static_cast<int>(block.parameter));
  }
  std::vector<std::uint64_t> bytes_by_shard() const {
    std::vector<std::uint64_t> bytes(dense_ports.size(), 0);
    for (const parameter::DenseBlock& block : blocks)
      bytes[block.shard] += block.size * element_bytes;
    return bytes;
  }
};

// The parameters that the job's pservers keep.
Result<std::vector<wire::ParameterSpec>> parameters_of(const config::JobConfig& job) {
  if (!job.tables.empty()) return config::table_parameters(job);
  PADDLE_TRY(const nn::Network network,
             nn::Network::build(job.layers, config::data_slots(job.data), job.evaluators));
  PADDLE_TRY_STATUS(trainer::EarlyStop::check(
      job.train, trainer::figures_of({0, 0, network.values(network.empty_tally())})));
  return network.parameters();
}

Result<Plan> make_plan(const trainer::TrainOptions& options,
                       const std::vector<std::string>& names) {
  PADDLE_TRY(const config::JobConfig job, config::read_job(options.config, options.overrides));
  PADDLE_TRY(const std::vector<wire::ParameterSpec> parameters, parameters_of(job));
  Plan plan;
  plan.set = trainer::parameter_set(job, parameters, options);
  PADDLE_TRY_STATUS(parameter::validate(plan.set));
  for (std::size_t i = 0; i < options.pservers.size(); ++i) {
    PADDLE_TRY(client::HostPort at, client::parse_host_port(options.pservers[i], options.port));
    const std::string node = i < names.size() ? names[i] : at.host;
    const auto add = [&](std::vector<PlannedPort>& ports, std::uint32_t count) {
      for (std::uint32_t n = 0; n < count; ++n) {
        const bool is_ipv6 = at.host.find(':') != std::string::npos;
        ports.push_back({fmt::format("{0}{1}{2}:{3}", is_ipv6 ? "[" : "", at.host,
                                     is_ipv6 ? "]" : "", at.port++),
                         node});
      }
    };
    add(plan.dense_ports, options.ports_num);
    add(plan.sparse_ports, options.ports_num_for_sparse);
  }
  plan.blocks = parameter::partition_dense(plan.set);
  plan.element_bytes = sizeof(float) * (1 + optim::state_width(plan.set.optimizer()));
  return plan;
}

std::string as_text(const Plan& plan) {
  // Columns are as wide as their contents. The ports, which are long, stand in the last one.
  std::vector<std::array<std::string, 5>> rows{{"parameter", "block", "elements", "bytes", "port"}};
  for (const parameter::DenseBlock& block : plan.blocks) {
    rows.push_back({plan.spec(block).name(), std::to_string(block.index),
                    std::to_string(block.size), std::to_string(block.size * plan.element_bytes),
                    plan.dense_ports[block.shard].text()});
  }
  for (const auto& spec : plan.set.parameters()) {
    if (!spec.sparse()) continue;
    const std::uint64_t row_bytes = parameter::row_width(spec) * plan.element_bytes;
    const std::string ports = plan.sparse_ports.size() == 1
                                  ? plan.sparse_ports[0].text()
                                  : fmt::format("all {} sparse ports", plan.sparse_ports.size());
    rows.push_back(
        {spec.name(), "rows", "", fmt::format("{} a row", row_bytes), ports + ", by row id"});
  }
  std::array<std::size_t, 5> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& [name, block, elements, bytes, port] : rows) {
    text += fmt::format("{:<{}}  {:>{}}  {:>{}}  {:>{}}  {}\n", name, widths[0], block, widths[1],
                        elements, widths[2], bytes, widths[3], port);
  }
  const auto bytes = plan.bytes_by_shard();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    text += fmt::format("dense port {} ({}): {} bytes\n", i, plan.dense_ports[i].text(), bytes[i]);
  }
  for (std::size_t i = 0; i < plan.sparse_ports.size(); ++i) {
    text += fmt::format("sparse port {} ({})\n", i, plan.sparse_ports[i].text());
  }
  return text;
}

// {"ports":[{"port":"10.0.0.1:7164","node":"n-0","kind":"dense","bytes":65536}],
//  "blocks":[{"parameter":"_fc.w0","block":0,"begin":0,"elements":8192,"bytes":32768,
//             "port":"10.0.0.1:7164"}],
//  "tables":[{"parameter":"_proj","width":32,"row_bytes":128}]}
// Bytes include the optimizer's state. A table's rows spread over all sparse ports by their id.
std::string as_json_text(const Plan& plan) {
  JsonArray ports;
  JsonArray blocks;
  JsonArray tables;
  const auto bytes = plan.bytes_by_shard();
  const auto port_fields = [](const PlannedPort& port, std::string_view kind) {
    return JsonObject().add("port", port.endpoint).add("node", port.node).add("kind", kind);
  };
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    ports.add(port_fields(plan.dense_ports[i], "dense").add("bytes", bytes[i]));
  }
  for (const PlannedPort& port : plan.sparse_ports) ports.add(port_fields(port, "sparse"));
  for (const parameter::DenseBlock& block : plan.blocks) {
    JsonObject fields;
    fields.add("parameter", plan.spec(block).name()).add("block", block.index);
    fields.add("begin", block.begin).add("elements", block.size);
    fields.add("bytes", block.size * plan.element_bytes);
    blocks.add(fields.add("port", plan.dense_ports[block.shard].endpoint));
  }
  for (const auto& spec : plan.set.parameters()) {
    if (!spec.sparse()) continue;
    const std::uint64_t width = parameter::row_width(spec);
    JsonObject fields;
    fields.add("parameter", spec.name()).add("width", width);
    tables.add(fields.add("row_bytes", width * plan.element_bytes));
  }
  return JsonObject().add("ports", ports).add("blocks", blocks).add("tables", tables).text() + "\n";
}

Status run_plan(PlanOptions& options) {
  PADDLE_TRY(const Plan plan, make_plan(options.train.resolve(), options.names));
  std::cout << (options.json ? as_json_text(plan) : escape_lines(as_text(plan)));
  return {};
}

std::function<Status()> declare_plan(FlagSet& flags) {
  const auto options = std::make_shared<PlanOptions>();
  options->train.declare(flags);
  flags.list("pserver_names", "NAME,... to print for the pservers", options->names);
  flags.boolean("json", "print one JSON object", options->json);
  return [options] { return run_plan(*options); };
}

}  // namespace

const Command kPlanCommand{"plan", "print which block of which parameter a port would hold",
                           R"(usage: paddle plan [the flags of paddle train]

example:
  paddle plan --config=job.toml --pservers=10.0.0.1,10.0.0.2 --ports_num=2
)",
                           declare_plan};

}  // namespace paddle::commands
