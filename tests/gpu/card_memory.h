// Values on the card, and what the host reads of them.
#pragma once

#include "tests/gpu/card.h"
#include "tests/unit/engine/gpu/device_fixture.h"
