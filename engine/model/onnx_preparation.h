// Maps the preparation of a slot's numbers (engine/data/preparation.h) to nodes of a graph, whose
// input is the raw record, with NaN for missing numbers. The nodes compute in double and round once
// to float32, as data::Preparation does.
#pragma once

#include "engine/config/data_config.h"
#include "engine/model/onnx_graph.h"

namespace paddle::onnx {

// The declared slot with this name if its numbers are prepared; null for all others.
const config::DataSlotConfig* prepared_slot(const config::DataConfig& data,
                                            const std::string& name);

// The floats {records, width} that layers read. `raw` is {records, slot.width}; the slot is not
// bucketed.
Value prepare_floats(Graph& graph, const config::DataSlotConfig& slot, const Value& raw);
// The ids {records, slot.width} of a bucketed slot, as int64.
Value prepare_ids(Graph& graph, const config::DataSlotConfig& slot, const Value& raw);

}  // namespace paddle::onnx
