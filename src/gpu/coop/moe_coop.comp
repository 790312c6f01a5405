// moe_tile.comp on cooperative matrices; see coop/tile_coop.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/tile.glsl"
layout(constant_id = 10) const uint BITS = 0; // of all records; 0: each says it
#include "gpu/coop/tile_coop.glsl"
#include "gpu/moe_tile.glsl"
