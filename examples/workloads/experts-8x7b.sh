# Megatron-LM arguments of a model with eight experts.
--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --num-query-groups 8 --kv-channels 128
--ffn-hidden-size 14336 --seq-length 4096 --padded-vocab-size 32000 --swiglu --disable-bias-linear
--normalization RMSNorm --untie-embeddings-and-output-weights --position-embedding-type rope
--num-experts 8 --moe-router-topk 2
