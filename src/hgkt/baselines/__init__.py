"""The competing methods. Adding one is a file of its own and one entry here."""

from functools import partial

from hgkt._registry import Entry


def _entry(target: str, summary: str, reference: str = "", *, family: str) -> Entry:
    return Entry(f"hgkt.baselines.{target}", summary, reference, family)


_probabilistic = partial(_entry, family="attribute probabilities")
_compatibility = partial(_entry, family="compatibility")
_to_visual = partial(_entry, family="attributes to features")
_to_semantic = partial(_entry, family="features to attributes")
_mixture = partial(_entry, family="mixtures of seen classes")
_generative = partial(_entry, family="generated rows of new classes")


def _one_space(target: str, summary: str, reference: str) -> Entry:
    return Entry(f"hgkt.baselines.shared_space:{target}", summary, reference, "one space", True)


_LAMPERT = (
    "Lampert, Nickisch, Harmeling, Attribute-Based Classification for Zero-Shot "
    "Visual Object Categorization, TPAMI 2014"
)
_SOCHER = "Socher et al., Zero-Shot Learning Through Cross-Modal Transfer, NIPS 2013"

BASELINES = {
    "dap": _probabilistic(
        "attribute_prediction:DAPClassifier", "direct attribute prediction", _LAMPERT
    ),
    "iap": _probabilistic(
        "attribute_prediction:IAPClassifier", "indirect attribute prediction", _LAMPERT
    ),
    "conse": _mixture(
        "conse:ConSEClassifier",
        "convex combination of semantic embeddings",
        "Norouzi et al., Zero-Shot Learning by Convex Combination of Semantic "
        "Embeddings, ICLR 2014",
    ),
    "cmt": _to_semantic("cmt:CMTClassifier", "cross-modal transfer", _SOCHER),
    "cmt-star": _to_semantic(
        "cmt:CMTStarClassifier", "cross-modal transfer with novelty detection", _SOCHER
    ),
    "sse": _mixture(
        "sse:SSEClassifier",
        "semantic similarity embedding",
        "Zhang, Saligrama, Zero-Shot Learning via Semantic Similarity Embedding, ICCV 2015",
    ),
    "latem": _compatibility(
        "bilinear:LatEmClassifier",
        "latent embeddings",
        "Xian et al., Latent Embeddings for Zero-shot Classification, CVPR 2016",
    ),
    "ale": _compatibility(
        "bilinear:ALEClassifier",
        "attribute label embedding",
        "Akata et al., Label-Embedding for Image Classification, TPAMI 2016",
    ),
    "devise": _compatibility(
        "bilinear:DeViSEClassifier",
        "deep visual-semantic embedding",
        "Frome et al., DeViSE: A Deep Visual-Semantic Embedding Model, NIPS 2013",
    ),
    "sje": _compatibility(
        "bilinear:SJEClassifier",
        "structured joint embedding",
        "Akata et al., Evaluation of Output Embeddings for Fine-Grained Image "
        "Classification, CVPR 2015",
    ),
    "eszsl": _compatibility(
        "eszsl:ESZSLClassifier",
        "embarrassingly simple zero-shot learning",
        "Romera-Paredes, Torr, An Embarrassingly Simple Approach to Zero-Shot Learning, ICML 2015",
    ),
    "sync": _mixture(
        "sync:SynCClassifier",
        "synthesised classifiers",
        "Changpinyo et al., Synthesized Classifiers for Zero-Shot Learning, CVPR 2016",
    ),
    "sae": _to_semantic(
        "sae:SAEClassifier",
        "semantic autoencoder",
        "Kodirov, Xiang, Gong, Semantic Autoencoder for Zero-Shot Learning, CVPR 2017",
    ),
    "gfzsl": _to_visual(
        "gfzsl:GFZSLClassifier",
        "generative framework, Gaussian classes",
        "Verma, Rai, A Simple Exponential Family Framework for Zero-Shot Learning, ECML-PKDD 2017",
    ),
    "exem": _to_visual(
        "exem:EXEMClassifier",
        "visual exemplars predicted from attributes",
        "Changpinyo, Chao, Sha, Predicting Visual Exemplars of Unseen Classes for Zero-Shot "
        "Learning, ICCV 2017",
    ),
    "dem": _to_visual(
        "dem:DEMClassifier",
        "deep embedding model",
        "Zhang, Xiang, Gong, Learning a Deep Embedding Model for Zero-Shot Learning, CVPR 2017",
    ),
    "psrzsl": _to_visual(
        "psrzsl:PSRZSLClassifier",
        "preserving semantic relations",
        "Annadani, Biswas, Preserving Semantic Relations for Zero-Shot Learning, CVPR 2018",
    ),
    "cn-zsl": _to_visual(
        "cn_zsl:CNZSLClassifier",
        "class normalization",
        "Skorokhodov, Elhoseiny, Class Normalization for (Continual?) Generalized "
        "Zero-Shot Learning, ICLR 2021",
    ),
    "cada-vae": _generative(
        "cada_vae:CADAVAEClassifier",
        "aligned autoencoders; trains again when a class is added",
        "Schönfeld et al., Generalized Zero- and Few-Shot Learning via Aligned Variational "
        "Autoencoders, CVPR 2019",
    ),
    "ridge": _to_visual(
        "ridge:RidgeClassMeanClassifier", "nearest class mean, unseen means by ridge regression"
    ),
    "zero-shot": _one_space(
        "ZeroShotClassifier",
        "cosine of row and description, nothing learned",
        "Radford et al., Learning Transferable Visual Models From Natural Language Supervision, "
        "ICML 2021",
    ),
    "tip-adapter": _one_space(
        "TipAdapterClassifier",
        "zero-shot and a cache of 16 rows per seen class, no training",
        "Zhang et al., Tip-Adapter: Training-free Adaption of CLIP for Few-shot Classification, "
        "ECCV 2022",
    ),
    "gda": _one_space(
        "GDAClassifier",
        "Gaussian discriminant analysis of means and descriptions",
        "Wang et al., A Hard-to-Beat Baseline for Training-free CLIP-based Adaptation, ICLR 2024",
    ),
}
