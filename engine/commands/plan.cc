#include "engine/commands/plan.h"

#include <fmt/format.h>

#include "base/json.h"
#include "engine/config/data_config.h"
#include "engine/nn/network/network.h"
#include "engine/optim/optimizer.h"
#include "engine/parameter/parameter_set.h"
#include "engine/parameter/partition.h"
#include "engine/trainer/connection.h"

namespace paddle::commands {
namespace {

struct Port {
  std::string endpoint;  // "host:port"
  std::string node;
  std::string text() const { return endpoint.starts_with(node) ? endpoint : node + " " + endpoint; }
};

struct Plan {
  wire::ParameterSet set;
  std::vector<parameter::DenseBlock> blocks;
  std::vector<Port> dense_ports;  // by shard
  std::vector<Port> sparse_ports;
  std::uint64_t element_bytes = 0;  // value and state

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

Result<Plan> make_plan(const PlanOptions& asked) {
  const trainer::TrainOptions& options = asked.train;
  PADDLE_TRY(const config::JobConfig job, config::read_job(options.config, options.overrides));
  PADDLE_TRY(const nn::Network network,
             nn::Network::build(job.layers, config::data_slots(job.data), job.evaluators));
  Plan plan;
  plan.set = trainer::parameter_set(job, network.parameters(), options);
  PADDLE_TRY_STATUS(parameter::validate(plan.set));
  for (std::size_t i = 0; i < options.pservers.size(); ++i) {
    PADDLE_TRY(trainer::HostPort at, trainer::parse_host_port(options.pservers[i], options.port));
    const std::string node = i < asked.names.size() ? asked.names[i] : at.host;
    const auto add = [&](std::vector<Port>& ports, std::uint32_t count) {
      for (std::uint32_t n = 0; n < count; ++n) {
        ports.push_back({fmt::format("{}:{}", at.host, at.port++), node});
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
  std::string text;
  std::size_t width = 9;
  for (const auto& spec : plan.set.parameters()) width = std::max(width, spec.name().size());
  text += fmt::format("{:<{}}  {:>5}  {:>12}  {:>14}  port\n", "parameter", width, "block",
                      "elements", "bytes");
  for (const parameter::DenseBlock& block : plan.blocks) {
    text += fmt::format("{:<{}}  {:>5}  {:>12}  {:>14}  {}\n", plan.spec(block).name(), width,
                        block.index, block.size, block.size * plan.element_bytes,
                        plan.dense_ports[block.shard].text());
  }
  for (const auto& spec : plan.set.parameters()) {
    if (!spec.sparse()) continue;
    text +=
        fmt::format("{:<{}}  {:>5}  {:>12}  {:>14}  {}, by row id\n", spec.name(), width, "rows",
                    "", fmt::format("{} a row", parameter::row_width(spec) * plan.element_bytes),
                    plan.sparse_ports.size() == 1
                        ? plan.sparse_ports[0].text()
                        : fmt::format("all {} sparse ports", plan.sparse_ports.size()));
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

std::string as_json_text(const Plan& plan) {
  JsonArray ports;
  JsonArray blocks;
  JsonArray tables;
  const auto bytes = plan.bytes_by_shard();
  const auto port_fields = [](const Port& port, std::string_view kind) {
    return JsonObject().add("port", port.endpoint).add("node", port.node).add("kind", kind);
  };
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    ports.add(port_fields(plan.dense_ports[i], "dense").add("bytes", bytes[i]));
  }
  for (const Port& port : plan.sparse_ports) ports.add(port_fields(port, "sparse"));
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

}  // namespace

Result<std::string> describe_plan(const PlanOptions& options) {
  PADDLE_TRY(const Plan plan, make_plan(options));
  return options.json ? as_json_text(plan) : as_text(plan);
}

}  // namespace paddle::commands
