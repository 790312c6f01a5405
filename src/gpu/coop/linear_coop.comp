// linear_tile.comp on cooperative matrices; see coop/tile_coop.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#define RUNS_CONSTANT 11
#include "gpu/tile.glsl"
layout(constant_id = 10) const uint BITS = 4;
#include "gpu/coop/tile_coop.glsl"
#include "gpu/linear_tile.glsl"
