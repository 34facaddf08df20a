#include "engine/strategy/card/card_tables.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "engine/snapshot/reader.h"

namespace paddle::strategy {

Status CardTables::check(const wire::ParameterSet& set) {
  for (const wire::ParameterSpec& spec : set.parameters()) {
    if (spec.sparse()) PADDLE_TRY_STATUS(CardTable::check(set, spec));
  }
  return {};
}

Result<std::unique_ptr<CardTables>> CardTables::create(
    const wire::ParameterSet& set, device::Lane lane, std::span<const std::uint64_t> vocabularies) {
  std::unique_ptr<CardTables> made(new CardTables(set));
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(set.parameters_size()); ++i) {
    const wire::ParameterSpec& spec = set.parameters(static_cast<int>(i));
    if (!spec.sparse()) continue;
    made->tables_.push_back(std::make_unique<CardTable>(set, i, lane));
    PADDLE_TRY_STATUS(made->tables_.back()->start(vocabularies[i]));
    log_info("table '{}' is on GPU {} ({})", spec.name(), lane.device->card().index,
             lane.device->card().name);
  }
  return made;
}

CardTable* CardTables::table_of(std::uint32_t parameter) {
  const auto found = std::ranges::find(tables_, parameter, &CardTable::parameter);
  PADDLE_CHECK(found != tables_.end());
  return found->get();
}

Status CardTables::find(std::span<client::SparseRows> rows, CardTable::Reads reads) {
  for (client::SparseRows& one : rows) {
    PADDLE_TRY_STATUS(table_of(one.parameter)->find(one, reads));
  }
  return {};
}

Status CardTables::update(std::span<const client::SparseRows> rows, float learning_rate) {
  for (const client::SparseRows& one : rows) {
    PADDLE_TRY_STATUS(table_of(one.parameter)->update(one, learning_rate));
  }
  return {};
}

Status CardTables::finish() {
  for (const auto& table : tables_) PADDLE_TRY_STATUS(table->finish());
  return {};
}

Status CardTables::save(snapshot::SnapshotWriter& writer) {
  for (const auto& table : tables_) PADDLE_TRY_STATUS(table->save(writer));
  return {};
}

Status CardTables::load(const snapshot::SnapshotReader& reader) {
  const snapshot::SnapshotSource source(set_, reader);
  for (const auto& table : tables_) PADDLE_TRY_STATUS(table->load(reader, source));
  return {};
}

std::map<std::uint32_t, client::TableTotals> CardTables::totals() const {
  std::map<std::uint32_t, client::TableTotals> all;
  for (const auto& table : tables_) all.emplace(table->parameter(), table->totals());
  return all;
}

}  // namespace paddle::strategy
