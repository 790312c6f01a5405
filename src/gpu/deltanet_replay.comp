// The state and the window of a DeltaNet layer after n of its pending rows, made again from what
// those rows left in the log (deltanet.comp): the other plane from the committed one.
//
// An invocation does one number of the state, or of the window: the same operations as in the scan,
// so the same bits. Grid: x = ceil((NV*DK*DV + KEEP*WIDTH) / 256).
#version 460
#extension GL_GOOGLE_include_directive : require
const uint LANES = 256;
#include "gpu/mix.glsl"

layout(local_size_x = LANES) in;
PARAMS(deltanet_replay_params)

layout(constant_id = 1) const uint NK = 1;
layout(constant_id = 2) const uint NV = 1;
layout(constant_id = 3) const uint DK = 32;
layout(constant_id = 4) const uint DV = 64;
layout(constant_id = 5) const uint KERNEL = 4;

const uint KEEP = KERNEL - 1, STATE = NV * DK * DV;
const uint KEY_CHANNELS = NK * DK, VALUES = NV * DV, WIDTH = 2 * KEY_CHANNELS + VALUES;
const uint LOG = WIDTH + KEY_CHANNELS + VALUES + NV;

void main()
{
    uint at = gl_GlobalInvocationID.x;
    F32 log = F32(p.log);
    if (at < STATE) {
        uint iv = at / (DK * DV), key = iv / (NV / NK) * DK + at / DV % DK;
        precise float st = F32(p.st_from).v[at];
        for (uint r = 0; r < p.n; r++) {
            uint row = r * LOG + WIDTH;
            precise float aged = log.v[row + KEY_CHANNELS + VALUES + iv] * st;
            st = fma(log.v[row + key], log.v[row + KEY_CHANNELS + iv * DV + at % DV], aged);
        }
        F32(p.st_to).v[at] = st;
        return;
    }
    at -= STATE;
    if (at >= KEEP * WIDTH)
        return;
    int row = int(p.n + at / WIDTH) - int(KEEP);
    uint ch = at % WIDTH;
    F32(p.conv_to).v[at] = row < 0 ? F32(p.conv_from).v[(int(KEEP) + row) * WIDTH + ch] :
                                     log.v[uint(row) * LOG + ch];
}
