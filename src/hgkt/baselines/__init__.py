"""The competing methods. Adding one is a file of its own and one entry here."""

from hgkt._registry import Entry

_PROBABILISTIC, _COMPATIBILITY = "attribute probabilities", "compatibility"
_TO_VISUAL, _TO_SEMANTIC = "attributes to features", "features to attributes"
_MIXTURE = "mixtures of seen classes"


def _baseline(module: str, name: str, summary: str, reference: str, family: str) -> Entry:
    return Entry(f"hgkt.baselines.{module}:{name}", summary, reference, family)


BASELINES = {
    "dap": _baseline(
        "dap",
        "DAPClassifier",
        "direct attribute prediction",
        "Lampert, Nickisch, Harmeling, Attribute-Based Classification for Zero-Shot "
        "Visual Object Categorization, TPAMI 2014",
        _PROBABILISTIC,
    ),
    "iap": _baseline(
        "iap",
        "IAPClassifier",
        "indirect attribute prediction",
        "Lampert, Nickisch, Harmeling, Attribute-Based Classification for Zero-Shot "
        "Visual Object Categorization, TPAMI 2014",
        _PROBABILISTIC,
    ),
    "conse": _baseline(
        "conse",
        "ConSEClassifier",
        "convex combination of semantic embeddings",
        "Norouzi et al., Zero-Shot Learning by Convex Combination of Semantic "
        "Embeddings, ICLR 2014",
        _MIXTURE,
    ),
    "cmt": _baseline(
        "cmt",
        "CMTClassifier",
        "cross-modal transfer",
        "Socher et al., Zero-Shot Learning Through Cross-Modal Transfer, NIPS 2013",
        _TO_SEMANTIC,
    ),
    "cmt-star": _baseline(
        "cmt_star",
        "CMTStarClassifier",
        "cross-modal transfer with novelty detection",
        "Socher et al., Zero-Shot Learning Through Cross-Modal Transfer, NIPS 2013",
        _TO_SEMANTIC,
    ),
    "sse": _baseline(
        "sse",
        "SSEClassifier",
        "semantic similarity embedding",
        "Zhang, Saligrama, Zero-Shot Learning via Semantic Similarity Embedding, ICCV 2015",
        _MIXTURE,
    ),
    "latem": _baseline(
        "latem",
        "LatEmClassifier",
        "latent embeddings",
        "Xian et al., Latent Embeddings for Zero-shot Classification, CVPR 2016",
        _COMPATIBILITY,
    ),
    "ale": _baseline(
        "ale",
        "ALEClassifier",
        "attribute label embedding",
        "Akata et al., Label-Embedding for Image Classification, TPAMI 2016",
        _COMPATIBILITY,
    ),
    "devise": _baseline(
        "devise",
        "DeViSEClassifier",
        "deep visual-semantic embedding",
        "Frome et al., DeViSE: A Deep Visual-Semantic Embedding Model, NIPS 2013",
        _COMPATIBILITY,
    ),
    "sje": _baseline(
        "sje",
        "SJEClassifier",
        "structured joint embedding",
        "Akata et al., Evaluation of Output Embeddings for Fine-Grained Image "
        "Classification, CVPR 2015",
        _COMPATIBILITY,
    ),
    "eszsl": _baseline(
        "eszsl",
        "ESZSLClassifier",
        "embarrassingly simple zero-shot learning",
        "Romera-Paredes, Torr, An Embarrassingly Simple Approach to Zero-Shot Learning, ICML 2015",
        _COMPATIBILITY,
    ),
    "sync": _baseline(
        "sync",
        "SynCClassifier",
        "synthesised classifiers",
        "Changpinyo et al., Synthesized Classifiers for Zero-Shot Learning, CVPR 2016",
        _MIXTURE,
    ),
    "sae": _baseline(
        "sae",
        "SAEClassifier",
        "semantic autoencoder",
        "Kodirov, Xiang, Gong, Semantic Autoencoder for Zero-Shot Learning, CVPR 2017",
        _TO_SEMANTIC,
    ),
    "gfzsl": _baseline(
        "gfzsl",
        "GFZSLClassifier",
        "generative framework, Gaussian classes",
        "Verma, Rai, A Simple Exponential Family Framework for Zero-Shot Learning, ECML-PKDD 2017",
        _TO_VISUAL,
    ),
    "dem": _baseline(
        "dem",
        "DEMClassifier",
        "deep embedding model",
        "Zhang, Xiang, Gong, Learning a Deep Embedding Model for Zero-Shot Learning, CVPR 2017",
        _TO_VISUAL,
    ),
    "psrzsl": _baseline(
        "psrzsl",
        "PSRZSLClassifier",
        "preserving semantic relations",
        "Annadani, Biswas, Preserving Semantic Relations for Zero-Shot Learning, CVPR 2018",
        _TO_VISUAL,
    ),
    "cn-zsl": _baseline(
        "cn_zsl",
        "CNZSLClassifier",
        "class normalization",
        "Skorokhodov, Elhoseiny, Class Normalization for (Continual?) Generalized "
        "Zero-Shot Learning, ICLR 2021",
        _TO_VISUAL,
    ),
    "ridge": _baseline(
        "ridge",
        "RidgeClassMeanClassifier",
        "nearest class mean, unseen means by ridge regression",
        "",
        _TO_VISUAL,
    ),
}
