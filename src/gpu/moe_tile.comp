// Products with routed experts for many rows; see tile.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/tile.glsl"
layout(constant_id = 5) const uint BITS = 0; // of all records; 0: each says it
#include "gpu/tile_dot.glsl"
#include "gpu/moe_tile.glsl"
