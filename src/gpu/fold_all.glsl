// For a kernel of 256 invocations with FOLD_ROOM: sums over all of them.
shared float all_room[8];

float fold_all(float x)
{
    precise float sum = fold_sum(x);
    if (LANE % 32 == 0)
        all_room[LANE / 32] = sum;
    barrier();
    sum = ((all_room[0] + all_room[1]) + (all_room[2] + all_room[3])) +
          ((all_room[4] + all_room[5]) + (all_room[6] + all_room[7]));
    return sum;
}
