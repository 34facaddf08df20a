// The kernels of a card: a closed set, so that each device can compile them all.
#pragma once

#include <variant>

#include "engine/math/card_costs.h"
#include "engine/math/card_elementwise.h"
#include "engine/math/card_row_wise.h"
#include "engine/math/card_rows.h"
#include "engine/math/card_sums.h"
#include "engine/math/card_update.h"

namespace paddle::kernels::device {

using Kernel =
    std::variant<Fill, Scale, CopyBlock, SumOf, ProductOf, Activate, ActivateBackward, AddBias,
                 Dropout, RoundToBfloat16, Gather, Pool, GatherBackward, PoolBackward, SampledCost,
                 SampledCostBackward, SampledTableBackward, SoftmaxRows, SoftmaxRowsBackward,
                 SoftmaxCrossEntropy, BinaryCrossEntropy, SquaredError, SumCosts, LayerNorm,
                 LayerNormBackward, PairSum, PairSumBackward, CosineSimilarity,
                 CosineSimilarityBackward, SlopeSums, GainSums, ThinProduct, Update, CountUpdates,
                 UpdateRows>;

}  // namespace paddle::kernels::device
